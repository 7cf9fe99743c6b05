//! Types of vertices: columns behind the features, one for each type, with a 1 in the column of the vertex's
//! type. A vertex that stands for a graph or a pair has no type, and zeros in all of them.

use crate::features::Entry;
use crate::{Features, GraphData, GraphError, Names};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::{MAX_VERTEX_TYPES, MAX_WIDTH};

/// As above.
const MOST: usize = MAX_VERTEX_TYPES as usize;

/// The type of each vertex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VertexTypes {
    /// The names of the types.
    pub names: Names,
    /// The type of each vertex, below the number of names.
    pub of: Vec<u16>,
}

impl VertexTypes {
    /// Types by a text for each vertex: whole numbers in their order, or else texts in theirs.
    ///
    /// # Errors
    /// More than [`MAX_VERTEX_TYPES`].
    pub(crate) fn of_texts(at: &str, texts: &Names) -> Result<Self, GraphError> {
        let mut names: Vec<&str> = Vec::new();
        for text in texts.iter() {
            // Beyond the limit the order does not matter, nor which of them are found.
            if let Err(place) = names.binary_search(&text)
                && names.len() <= MOST
            {
                names.insert(place, text);
            }
        }
        if names.len() > MOST {
            return Err(too_many(at, names.len()));
        }
        let mut order = names.clone();
        let numbers: Option<Vec<u64>> = names.iter().map(|name| name.parse().ok()).collect();
        if numbers.is_some() {
            order.sort_by_key(|name| name.parse::<u64>().unwrap_or(u64::MAX));
        }
        let place = |text: &str| order.iter().position(|name| *name == text);
        let places: Vec<u16> = (names.iter())
            .map(|name| place(name).unwrap_or_default() as u16)
            .collect();
        let of = |text: &str| names.binary_search(&text).map_or(0, |found| places[found]);
        Ok(Self {
            of: texts.iter().map(of).collect(),
            names: order.into_iter().collect(),
        })
    }

    /// Adds the types to a graph that has none.
    ///
    /// # Errors
    /// As [`VertexTypes::beside`].
    pub(crate) fn give(&self, at: &str, data: &mut GraphData) -> Result<(), GraphError> {
        let features = std::mem::take(&mut data.features);
        (data.features, data.vertex_types) = self.beside(at, features)?;
        Ok(())
    }

    /// Features with the columns of the types behind them, and the names of the types. One type is none.
    ///
    /// # Errors
    /// More types than there may be, or more columns than a row of features may have.
    pub(crate) fn beside(
        &self,
        at: &str,
        features: Features,
    ) -> Result<(Features, Names), GraphError> {
        let types = self.names.len();
        if types < 2 {
            return Ok((features, Names::default()));
        }
        if types > MOST {
            return Err(too_many(at, types));
        }
        let columns = features.columns() as usize + types;
        if columns > MAX_WIDTH as usize {
            return Err(GraphError::Unsupported {
                at: at.to_owned(),
                found: format!("{} with the types of vertices", counted(columns, "feature")),
                expected: format!("at most {MAX_WIDTH}"),
            });
        }
        if let Some(rows) = features.rows().filter(|rows| *rows != self.of.len()) {
            return Err(GraphError::Unsupported {
                at: at.to_owned(),
                found: format!("features of {}", counted(rows, "row")),
                expected: format!("{}, one for each vertex", self.of.len()),
            });
        }
        let features = features.with_one_hot(&self.of, types as u32);
        Ok((features, self.names.clone()))
    }
}

fn too_many(at: &str, found: usize) -> GraphError {
    let more = if found > MOST {
        format!("more than {MAX_VERTEX_TYPES}")
    } else {
        found.to_string()
    };
    GraphError::Unsupported {
        at: at.to_owned(),
        found: format!("{more} types of vertices"),
        expected: format!(
            "at most {MAX_VERTEX_TYPES}; merge similar ones, or leave the column out with --without"
        ),
    }
}

impl GraphData {
    /// Features that come before the columns of the vertices' types.
    pub fn own_features(&self) -> u32 {
        let types = self.vertex_types.len() as u32;
        self.features.columns().saturating_sub(types)
    }

    /// How many vertices each type has.
    pub fn vertices_by_type(&self) -> Vec<u64> {
        let mut counts = vec![0; self.vertex_types.len()];
        for kind in self.types_of_vertices().into_iter().flatten() {
            counts[usize::from(kind)] += 1;
        }
        counts
    }

    /// The type of each vertex, by its number; `None` of those that have none. Empty if there are no types.
    pub fn types_of_vertices(&self) -> Vec<Option<u16>> {
        if self.vertex_types.is_empty() {
            return Vec::new();
        }
        let own = self.own_features();
        let mut types = vec![None; self.vertices() as usize];
        for entry in self.features.entries() {
            let kind = entry.column.checked_sub(own);
            if let (Some(kind), Some(own)) = (kind, types.get_mut(entry.row)) {
                *own = Some(kind as u16);
            }
        }
        types
    }

    /// The vertices of a type; `None` if no type has the name.
    pub fn vertices_of_type(&self, name: &str) -> Option<Vec<u32>> {
        let kind = self.vertex_types.iter().position(|own| own == name)?;
        let column = self.own_features() + kind as u32;
        let is_own = |v: &u32| self.features.at(*v as usize, column) != 0.0;
        Some((0..self.vertices()).filter(is_own).collect())
    }

    /// Numbers the types of vertices by their places among `names`.
    ///
    /// # Errors
    /// A type that is not among them, or no types where there are names.
    pub fn number_types(&mut self, names: &Names) -> Result<(), GraphError> {
        if self.vertex_types == *names {
            return Ok(());
        }
        let place = |name: &str| names.iter().position(|known| known == name);
        let mut places = Vec::new();
        for name in self.vertex_types.iter() {
            places.push(place(name).ok_or_else(|| self.other_types(&format!("`{name}`"), names))?);
        }
        if places.is_empty() {
            return Err(self.other_types("a single type, or none,", names));
        }
        let (own, rows) = (self.own_features(), self.vertices() as usize);
        // A row has one type, so its columns still ascend.
        let entries = self.features.entries().map(|entry| Entry {
            column: match entry.column.checked_sub(own) {
                None => entry.column,
                Some(kind) => own + places[kind as usize] as u32,
            },
            ..entry
        });
        let features = Features::of_entries(rows, own + names.len() as u32, entries);
        self.features = features.in_best_storage();
        self.vertex_types = names.clone();
        Ok(())
    }

    fn other_types(&self, found: &str, names: &Names) -> GraphError {
        let known: Vec<&str> = names.iter().collect();
        GraphError::Unsupported {
            at: self.name.clone(),
            found: format!("{found} as the type of vertices"),
            expected: match known.is_empty() {
                true => "no types, as in the model's own graph".to_owned(),
                false => format!("types of the model's own graph: {}", known.join(", ")),
            },
        }
    }

    /// Replaces the features, and keeps the types.
    pub fn set_own_features(&mut self, features: Features) {
        let before = self.own_features();
        self.features =
            match self.vertex_types.is_empty() || features.rows() != self.features.rows() {
                true => features,
                false => features.beside(&self.features, before),
            };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    #[test]
    fn types_are_columns_behind_the_features() {
        let texts: Names = "b a b b a c a a".split(' ').collect();
        let types = VertexTypes::of_texts("t", &texts).unwrap();
        assert_eq!(types.of, [1, 0, 1, 1, 0, 2, 0, 0]);
        for start in [
            example::g8().features,
            example::g8().features.to_sparse(),
            Features::None,
        ] {
            let mut data = example::g8();
            data.features = start.clone();
            types.give("t", &mut data).unwrap();
            assert_eq!(
                (data.validate(), data.own_features()),
                (vec![], start.columns())
            );
            let row = data.features.select(&[5]).to_dense();
            assert_eq!(row.values()[row.values().len() - 3..], [0.0, 0.0, 1.0]);
            assert_eq!(data.vertices_of_type("b"), Some(vec![0, 2, 3]));
            assert_eq!(data.vertices_of_type("d"), None);
            let scaled = data.features.row_normalized(data.own_features()).to_dense();
            let width = data.features.columns() as usize;
            assert_eq!(scaled.values()[width - 3..width], [0.0, 1.0, 0.0]);
            data.set_own_features(Features::identity(8));
            assert_eq!((data.own_features(), data.features.columns()), (8, 11));
            assert_eq!(data.vertices_of_type("c"), Some(vec![5]));
        }
    }

    #[test]
    fn types_of_another_graph_are_found_by_name() {
        let mut data = example::g8();
        let texts: Names = "b a b b a b a a".split(' ').collect();
        let types = VertexTypes::of_texts("t", &texts).unwrap();
        types.give("t", &mut data).unwrap();
        let names: Names = ["c", "b", "a"].into_iter().collect();
        let mut other = data.clone();
        other.number_types(&names).unwrap();
        assert_eq!((other.own_features(), other.features.columns()), (4, 7));
        for name in ["a", "b"] {
            assert_eq!(other.vertices_of_type(name), data.vertices_of_type(name));
        }
        assert_eq!(other.vertices_of_type("c"), Some(vec![]));
        let few: Names = ["a"].into_iter().collect();
        let error = data.number_types(&few).unwrap_err().to_string();
        assert!(error.contains("`b` as the type of vertices"), "{error}");
        assert!(example::g8().number_types(&names).is_err());
        assert!(data.number_types(&Names::default()).is_err());
    }

    #[test]
    fn numbers_keep_their_order_and_one_type_is_none() {
        let texts: Names = "10 9 10".split(' ').collect();
        let types = VertexTypes::of_texts("t", &texts).unwrap();
        assert_eq!((types.of, types.names.get(0)), (vec![1, 0, 1], Some("9")));
        let one = VertexTypes {
            names: ["a"].into_iter().collect(),
            of: vec![0; 8],
        };
        let mut data = example::g8();
        one.give("t", &mut data).unwrap();
        assert_eq!(data, example::g8());
        let many: Names = (0..2000).map(|n| n.to_string()).collect();
        assert!(VertexTypes::of_texts("t", &many).is_err());
    }
}
