//! What rewriting saves: the tables of `docs/rewrites.md` are what the program says.

use super::examples::models;
use super::support::{Folder, ROOT, gnnc};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const PAGE: &str = "docs/rewrites.md";

/// Fails unless the page has the tables.
fn on_the_page(tables: &[&str]) {
    let page = std::fs::read_to_string(Path::new(ROOT).join(PAGE)).unwrap();
    let lacks: Vec<&str> = tables
        .iter()
        .copied()
        .filter(|table| !page.contains(table))
        .collect();
    assert!(lacks.is_empty(), "{PAGE} lacks\n{}", lacks.join("\n"));
}

/// Seconds, or milliseconds if there are few.
fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// A rule's largest saving.
struct Saving {
    /// Examples whose form needs the rule.
    examples: usize,
    /// The largest share of an example's work as written.
    share: f64,
    /// That example.
    of: String,
}

#[test]
fn the_page_says_what_each_example_and_rule_gains() {
    let mut gains =
        "| example | as written | rewritten | gain |\n| --- | --: | --: | --: |\n".to_owned();
    let mut rules: BTreeMap<String, Saving> = BTreeMap::new();
    let mut above = 0;
    for model in models() {
        let name = Path::new(&model).file_stem().unwrap().to_str().unwrap();
        let report = gnnc(["explain", &model, "--format", "json"]).ok();
        let report: Value = serde_json::from_str(&report).unwrap();
        let report = &report["report"];
        let before = number(&report["before"]["seconds"]);
        let after = number(&report["after"]["seconds"]);
        above += usize::from(before > after * 1.001);
        writeln!(
            gains,
            "| {name} | {} | {} | {:.3} |",
            time(before),
            time(after),
            before / after
        )
        .unwrap();
        let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
        for region in report["regions"].as_array().unwrap() {
            let runs = number(&region["instances"]) * number(&region["repeats"]);
            for rule in region["rules"].as_array().unwrap() {
                let share = runs * number(&rule["saved_seconds"]) / before;
                *shares.entry(rule["rule"].as_str().unwrap()).or_default() += share;
            }
        }
        for (rule, share) in shares {
            let saving = rules.entry(rule.to_owned()).or_insert(Saving {
                examples: 0,
                share: 0.0,
                of: name.to_owned(),
            });
            saving.examples += 1;
            if share > saving.share {
                (saving.share, saving.of) = (share, name.to_owned());
            }
        }
    }
    assert!(above >= 12, "only {above} examples gain");
    let mut table =
        "| rule | examples | largest share | of |\n| --- | --: | --: | --- |\n".to_owned();
    for (rule, saving) in rules {
        let share = saving.share * 100.0;
        let cells = if share >= 0.05 {
            format!("{share:.1} % | {}", saving.of)
        } else {
            "nothing by itself |".to_owned()
        };
        writeln!(table, "| `{rule}` | {} | {cells} |", saving.examples).unwrap();
    }
    on_the_page(&[&gains, &table]);
}

/// Where a GCN layer is in a model.
#[derive(Clone, Copy)]
enum Place {
    /// On features, of which this share is not zero.
    Features(f32),
    /// Behind another layer.
    Later,
}

impl Place {
    fn words(self) -> &'static str {
        match self {
            Self::Features(1.0) => "first, dense features",
            Self::Features(_) => "first, 1 % nonzeros",
            Self::Later => "later",
        }
    }

    /// Whether the rewriter multiplies before it sums.
    fn multiplies_first(self, degree: u32, inner: u32, out: u32) -> bool {
        let (features, density, before) = match self {
            Self::Features(density) => (inner, density, String::new()),
            Self::Later => (64, 1.0, format!("linear({inner}) |> relu |> ")),
        };
        let text = format!(
            "graph g {{ vertices = 10_000 edges = {} features = {features} classes = {out} \
             feature_density = {density} }}\n\
             model m() on g {{ let z = x |> {before}gcn_conv(classes)\n\
             loss cross_entropy(z, labels, on = train) }}\n\
             train {{ optimizer = adam(lr = 0.01) epochs = 10 }}\n",
            degree * 10_000
        );
        let folder = Folder::new();
        let file = folder.file("layer.gir", text);
        let forms = gnnc(["emit", "forms", file.to_str().unwrap()]).ok();
        let product = forms.rfind(" matmul ").unwrap();
        product < forms.find(" gather ").unwrap()
    }
}

#[test]
fn the_page_says_which_order_is_cheaper() {
    let outs = [16, 64, 256];
    let mut table = "| layer | edges a vertex | columns in | 16 out | 64 out | 256 out |\n\
                     | --- | --: | --: | --- | --- | --- |\n"
        .to_owned();
    for place in [Place::Features(1.0), Place::Features(0.01), Place::Later] {
        for degree in [4, 50] {
            for inner in [16, 64, 128, 512, 1433] {
                let first = |out| {
                    if place.multiplies_first(degree, inner, out) {
                        "product"
                    } else {
                        "sum"
                    }
                };
                let cells = outs.map(first);
                let (words, cells) = (place.words(), cells.join(" | "));
                writeln!(table, "| {words} | {degree} | {inner} | {cells} |").unwrap();
            }
        }
    }
    on_the_page(&[&table]);
}

/// A model with a loop that runs four times, and the same model without the loop; `None` without a loop.
fn unrolled(text: &str) -> Option<[String; 2]> {
    let begin = text.find("repeat ")?;
    let open = begin + text[begin..].find('{')?;
    let close = open + text[open..].find('}')?;
    let words: Vec<&str> = text[begin..open].split_whitespace().collect();
    let ["repeat", variable, "in", range] = words[..] else {
        return None;
    };
    let first: u32 = range.split("..=").next()?.parse().ok()?;
    let last = first + 3;
    let iteration = |number: u32| {
        let lines = text[open + 1..close].lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty()).map(|line| {
            let words = line.replace(&format!("{variable} "), &format!("{number} "));
            let words = words.replace(&format!("{variable})"), &format!("{number})"));
            match words.strip_prefix("let ") {
                Some(_) => words,
                None => format!("let {words}"),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let (before, after) = (&text[..begin], &text[close + 1..]);
    let head = format!("repeat {variable} in {first}..={last} ");
    let flat: Vec<String> = (first..=last).map(iteration).collect();
    Some([
        format!("{before}{head}{}{after}", &text[open..=close]),
        format!("{before}{}{after}", flat.join("\n")),
    ])
}

#[test]
fn loops_hide_nothing_from_rules() {
    let folder = Folder::new();
    let mut seen = 0;
    for model in models() {
        let text = std::fs::read_to_string(&model).unwrap();
        let data = format!("\"{ROOT}/examples/data/");
        let Some(both) = unrolled(&text.replace("\"data/", &data)) else {
            continue;
        };
        seen += 1;
        let [[before, after], [flat_before, flat_after]] = both.map(|text| {
            let file = folder.file("model.gir", text);
            let report = gnnc(["explain", file.to_str().unwrap(), "--format", "json"]).ok();
            let report: Value = serde_json::from_str(&report).unwrap();
            ["before", "after"].map(|form| number(&report["report"][form]["seconds"]))
        });
        assert!(
            (before / flat_before - 1.0).abs() < 1e-9,
            "{model}: another model"
        );
        // The first iteration of a written-out loop may end what comes before it.
        let more = after / flat_after - 1.0;
        assert!(
            more < 0.0015,
            "{model}: the form with a loop takes {more} more"
        );
    }
    assert!(seen >= 9, "{seen} examples have loops");
}
