//! GraphML: `node` and `edge` elements with attributes (`data`) that `key` elements name.

use super::records::Records;
use super::text::open;
use super::{Import, Note, Pair, of_tables, several_graphs};
use crate::read::place;
use crate::topology::Dropped;
use crate::{GraphData, GraphError};
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use std::collections::HashMap;
use std::io::BufReader;

/// An attribute that elements of a kind may have.
struct Key {
    /// Its name, or its id if it has none.
    name: String,
    /// Whether it is true or false.
    is_bool: bool,
    default: Option<String>,
    /// `node`, `edge` or `all`, or something else.
    element: String,
}

/// What was read so far.
#[derive(Default)]
struct Parsed {
    keys: HashMap<String, Key>,
    /// The ids of the keys, in order.
    order: Vec<String>,
    nodes: Records,
    edges: Records,
    graphs: u64,
    undirected: bool,
    /// The elements that are open, from the outermost.
    open: Vec<String>,
    /// The key of the `data` or the `key` element that is open.
    key: String,
    /// The text in it.
    text: String,
}

/// Reads a file.
///
/// # Errors
/// A file that is no GraphML, or that has several graphs or edges of more than two ends.
pub(super) fn read(
    options: &Import,
    notes: &mut Vec<Note>,
) -> Result<(GraphData, Dropped), GraphError> {
    let path = &options.edges;
    let at = place(path);
    let mut reader = Reader::from_reader(BufReader::new(open(path, b'<')?));
    let mut parsed = Parsed::default();
    let mut buffer = Vec::new();
    loop {
        let read = reader.read_event_into(&mut buffer);
        let taken = match read {
            Ok(Event::Eof) => break,
            Ok(event) => parsed.take(&event),
            Err(error) => Err(error.to_string()),
        };
        taken.map_err(|found| GraphError::Unsupported {
            at: format!("{at}: byte {}", reader.buffer_position()),
            found,
            expected: "GraphML with one graph, whose edges have a source and a target".to_owned(),
        })?;
        buffer.clear();
    }
    if !parsed.open.is_empty() || parsed.graphs != 1 {
        return Err(match parsed.graphs {
            0 | 1 => GraphError::Unsupported {
                at,
                found: "a file without a whole graph".to_owned(),
                expected: "GraphML with one graph".to_owned(),
            },
            graphs => several_graphs(&at, graphs),
        });
    }
    if parsed.undirected {
        notes.push(Note(format!(
            "{at}: undirected, every edge in both directions"
        )));
    }
    let tables = Pair {
        nodes: Some(parsed.nodes.table(format!("{at}: nodes"))?),
        edges: parsed.edges.table(format!("{at}: edges"))?,
    };
    of_tables(tables, parsed.undirected, options, notes)
}

/// The value of an attribute of an element.
fn attribute(element: &BytesStart, name: &str) -> Result<Option<String>, String> {
    let found = element
        .try_get_attribute(name)
        .map_err(|error| error.to_string())?;
    let value = found.map(|found| {
        found
            .normalized_value(XmlVersion::Implicit1_0)
            .map(String::from)
    });
    value.transpose().map_err(|error| error.to_string())
}

/// An attribute that an element must have.
fn required(element: &BytesStart, name: &str) -> Result<String, String> {
    let value = attribute(element, name)?;
    value.ok_or_else(|| format!("`{}` without `{name}`", element.local_name().as_ref()))
}

impl Parsed {
    fn take(&mut self, event: &Event) -> Result<(), String> {
        const LONGEST: usize = 16 << 20;
        if self.text.len() > LONGEST {
            return Err(format!("a text of more than {} MiB", LONGEST >> 20));
        }
        match event {
            Event::Start(element) => self.start(element),
            Event::Empty(element) => {
                self.start(element)?;
                self.end()
            }
            Event::End(_) => self.end(),
            Event::Text(text) => {
                self.text += &text.xml10_content();
                Ok(())
            }
            Event::CData(text) => {
                self.text += &text.xml10_content();
                Ok(())
            }
            Event::GeneralRef(name) => {
                let letter = name.resolve_char_ref().map_err(|error| error.to_string())?;
                match (letter, resolve_predefined_entity(name)) {
                    (Some(letter), _) => self.text.push(letter),
                    (None, Some(text)) => self.text += text,
                    (None, None) => return Err(format!("the unknown entity `&{};`", &**name)),
                }
                Ok(())
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::DocType(_) | Event::Eof => {
                Ok(())
            }
        }
    }

    fn start(&mut self, element: &BytesStart) -> Result<(), String> {
        const DEEPEST: usize = 64;
        let name = element.local_name().as_ref().to_owned();
        let within = self
            .open
            .last()
            .map(String::as_str)
            .unwrap_or_default()
            .to_owned();
        if self.open.len() >= DEEPEST {
            return Err(format!("elements within more than {DEEPEST} others"));
        }
        if self.open.is_empty() && name != "graphml" {
            return Err(format!("a file of `{name}`"));
        }
        self.text.clear();
        match (name.as_str(), within.as_str()) {
            ("key", "graphml") => self.declare(element)?,
            ("graph", "graphml") => {
                self.graphs += 1;
                self.undirected =
                    attribute(element, "edgedefault")?.as_deref() == Some("undirected");
            }
            ("graph", _) => return Err("a graph within a vertex or an edge".to_owned()),
            ("hyperedge", _) => return Err("an edge of more than two ends".to_owned()),
            ("node", "graph") => {
                self.nodes.set("id", &required(element, "id")?);
                self.defaults("node");
            }
            ("edge", "graph") => {
                let directed = attribute(element, "directed")?;
                if directed.is_some_and(|directed| (directed == "false") != self.undirected) {
                    return Err("an edge that is directed unlike the others".to_owned());
                }
                self.edges.set("source", &required(element, "source")?);
                self.edges.set("target", &required(element, "target")?);
                self.defaults("edge");
            }
            ("data", _) => self.key = required(element, "key")?,
            _ => {}
        }
        self.open.push(name);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let name = self.open.pop().unwrap_or_default();
        let within = self.open.last().map(String::as_str).unwrap_or_default();
        let text = std::mem::take(&mut self.text);
        match (name.as_str(), within) {
            ("node", "graph") => self.nodes.end()?,
            ("edge", "graph") => self.edges.end()?,
            ("default", "key") => {
                if let Some(key) = self.keys.get_mut(&self.key) {
                    key.default = Some(text);
                }
            }
            ("data", element @ ("node" | "edge")) => {
                let Some(key) = self.keys.get(&self.key) else {
                    return Err(format!(
                        "data of the key `{}`, which is not declared",
                        self.key
                    ));
                };
                let value = key.value(&text);
                match element {
                    "node" => self.nodes.set(&key.name, value),
                    _ => self.edges.set(&key.name, value),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a `key` element.
    fn declare(&mut self, element: &BytesStart) -> Result<(), String> {
        let id = required(element, "id")?;
        let name = attribute(element, "attr.name")?.unwrap_or_else(|| id.clone());
        let key = Key {
            // A vertex has an id already.
            name: if ["id", "source", "target"].contains(&name.as_str()) {
                format!("{name} ({id})")
            } else {
                name
            },
            is_bool: attribute(element, "attr.type")?.as_deref() == Some("boolean"),
            default: None,
            element: attribute(element, "for")?.unwrap_or_else(|| "all".to_owned()),
        };
        self.key.clone_from(&id);
        match self.keys.insert(id.clone(), key) {
            Some(_) => Err(format!("the key `{id}` again")),
            None => {
                self.order.push(id);
                Ok(())
            }
        }
    }

    /// Gives a row the defaults of its attributes.
    fn defaults(&mut self, element: &str) {
        for key in self.order.iter().filter_map(|id| self.keys.get(id)) {
            if let Some(default) = &key.default
                && (key.element == element || key.element == "all")
            {
                match element {
                    "node" => self.nodes.fill(&key.name, key.value(default)),
                    _ => self.edges.fill(&key.name, key.value(default)),
                }
            }
        }
    }
}

impl Key {
    /// A value as the field of a table.
    fn value<'a>(&self, text: &'a str) -> &'a str {
        match text.trim() {
            "true" if self.is_bool => "1",
            "false" if self.is_bool => "0",
            trimmed => trimmed,
        }
    }
}
