//! Settings blocks: reads values, checks their kinds and ranges. Includes the `train` block.

mod optimizer;

use super::overrides::overridden;
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::ast::{Block, Expr, ExprKind, Module, Setting, UnaryOp};
use gnnc_ir::graph::model::{Relaxation, TrainSettings};
use gnnc_ir::program::instr::MOST_LAG;
use gnnc_ir::words::metric::Metric;
use gnnc_ir::words::sampling::{
    ALL, Cut, Exclude, Fanout, Kind, MAX_HOPS, Negatives, Roots, SamplingSettings,
};
use gnnc_ir::words::schedule::Schedule;
use gnnc_ir::words::spelling::{did_you_mean, one_of};
use std::ops::RangeInclusive;

/// Largest count that a double holds exactly.
const LARGEST: f64 = 9_007_199_254_740_992.0;

/// Most seeds of a batch, and most edges of a fanout.
const LARGEST_BATCH: f64 = 1e9;

/// The `train` block of a module with the settings from outside, or the defaults.
pub fn train(
    module: &Module,
    overrides: &[(String, f64)],
    diagnostics: &mut Vec<Diagnostic>,
) -> TrainSettings {
    let mut blocks = module.trains();
    let none = Block::default();
    let (first, block) = blocks.next().unwrap_or((Span::default(), &none));
    for (span, _) in blocks {
        let twice = Diagnostic::new("E0203", "there are two `train` blocks").at(span);
        diagnostics.push(
            twice
                .label(first, "first here")
                .help("put all settings into one block"),
        );
    }
    let keys = [
        "optimizer",
        "weight_decay",
        "clip_norm",
        "schedule",
        "epochs",
        "patience",
        "metric",
        "seed",
        "allow",
        "batch",
        "fanouts",
        "eval_fanouts",
        "sampler",
        "cut",
        "roots",
        "exclude",
        "negatives",
        "prefetch",
        "delay",
        "static",
        "lazy_embeddings",
    ];
    let block = overridden(block, overrides, diagnostics);
    let mut reader = Reader::new(&block, "train", &keys, diagnostics);
    let mut settings = TrainSettings::default();
    if let Some(value) = reader.get("optimizer")
        && let Some(optimizer) = reader.optimizer(value)
    {
        settings.optimizer = optimizer;
    }
    if let Some(decay) = reader.number("weight_decay", 0.0..=1e6) {
        settings.weight_decay = decay;
    }
    settings.clip_norm = reader.number("clip_norm", 1e-9..=1e9);
    if let Some(value) = reader.get("schedule")
        && let Some(schedule) = reader.schedule(value)
    {
        settings.schedule = schedule;
    }
    if let Some(epochs) = reader.count("epochs", 1.0..=1e9) {
        settings.epochs = epochs as u32;
    }
    settings.patience = reader.count("patience", 1.0..=1e9).map(|n| n as u32);
    settings.metric = reader.metric();
    if let Some(seed) = reader.count("seed", 0.0..=LARGEST) {
        settings.seed = seed;
    }
    if let Some(value) = reader.get("allow") {
        settings.allow = reader.relaxations(value);
    }
    settings.sampling = SamplingSettings {
        batch: reader.count("batch", 1.0..=LARGEST_BATCH).map(|n| n as u32),
        fanouts: reader.fanouts("fanouts"),
        eval_fanouts: reader.fanouts("eval_fanouts"),
        sampler: reader.choice("sampler", Kind::ALL, Kind::name),
        cut: reader.choice("cut", Cut::ALL, Cut::name),
        roots: reader.choice("roots", Roots::ALL, Roots::name),
        exclude: reader.choice("exclude", Exclude::ALL, Exclude::name),
        negatives: reader.choice("negatives", Negatives::ALL, Negatives::name),
        samplers: None,
        prefetch: reader
            .count("prefetch", 0.0..=f64::from(MOST_LAG))
            .map(|n| n as u32),
        delay: reader
            .count("delay", 0.0..=f64::from(MOST_LAG))
            .map(|n| n as u32),
        // How many ranks there are, and what moves between them, is not the model's to say.
        migrate: None,
        merges: None,
        cache: None,
        cache_by: None,
        cache_age: None,
        topology: None,
        beforehand: reader.boolean("static"),
        lazy: reader.boolean("lazy_embeddings"),
    };
    settings
}

/// The settings of a block.
pub struct Reader<'a, 'd> {
    block: &'a Block<Setting>,
    diagnostics: &'d mut Vec<Diagnostic>,
    /// Whether there are unknown keys; a misspelled key explains a missing one.
    unknown: bool,
}

impl<'a, 'd> Reader<'a, 'd> {
    /// Reads the settings of `block`; reports unknown and repeated keys.
    pub fn new(
        block: &'a Block<Setting>,
        what: &str,
        keys: &[&str],
        diagnostics: &'d mut Vec<Diagnostic>,
    ) -> Self {
        let mut unknown = false;
        for (k, setting) in block.body.iter().enumerate() {
            let (name, span) = (setting.key.name.as_str(), setting.key.span());
            if !keys.contains(&name) {
                unknown = true;
                let message = format!("`{what}` has no setting `{name}`");
                let help = did_you_mean(name, keys.iter().copied())
                    .unwrap_or_else(|| format!("it knows {}", one_of(keys.iter().copied())));
                diagnostics.push(Diagnostic::new("E0401", message).at(span).help(help));
            } else if let Some(first) = block.body[..k].iter().find(|s| s.key.name == name) {
                let message = format!("the setting `{name}` is given twice");
                let twice = Diagnostic::new("E0203", message).at(span);
                diagnostics.push(twice.label(first.key.span(), "first given here"));
            }
        }
        Self {
            block,
            diagnostics,
            unknown,
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'a Expr> {
        self.block
            .body
            .iter()
            .find(|s| s.key.name == key)
            .map(|s| &s.value)
    }

    /// Reports a missing key of the block at `span`.
    pub fn missing(&mut self, key: &str, span: Span) {
        if self.unknown {
            return;
        }
        let message = format!("the setting `{key}` is missing");
        let help = format!("add `{key} = ..` to the block");
        self.diagnostics
            .push(Diagnostic::new("E0402", message).at(span).help(help));
    }

    /// A number in a range.
    pub fn number(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.get(key)?;
        self.number_of(key, value, range, false)
    }

    /// A whole number in a range.
    pub fn count(&mut self, key: &str, range: RangeInclusive<f64>) -> Option<u64> {
        let value = self.get(key)?;
        self.number_of(key, value, range, true).map(|n| n as u64)
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        match value.kind {
            ExprKind::Bool(value) => Some(value),
            _ => self.wrong(key, value, "`true` or `false`"),
        }
    }

    /// Whether a key is present. Its only legal value is `word`.
    pub fn word(&mut self, key: &str, word: &str) -> bool {
        let Some(value) = self.get(key) else {
            return false;
        };
        let found = matches!(&value.kind, ExprKind::Name(name) if name == word);
        found
            || self
                .wrong(key, value, &format!("`{word}`"))
                .unwrap_or(false)
    }

    /// Reports a number larger than the other settings allow, and why.
    pub fn at_most(&mut self, key: &str, found: u64, most: u64, why: &str) {
        if let Some(value) = self.get(key).filter(|_| found > most) {
            let message = format!("`{key}` must be at most {most}, found {found}");
            self.diagnostics
                .push(Diagnostic::new("E0403", message).at(value.span()).help(why));
        }
    }

    /// Reads `{ 2: 0.96, 4: 1.95 }`; `values` gives the range for each key.
    pub fn map(
        &mut self,
        key: &str,
        keys: RangeInclusive<f64>,
        values: fn(f64) -> RangeInclusive<f64>,
    ) -> Vec<(u64, f64)> {
        let Some(map) = self.get(key) else {
            return Vec::new();
        };
        let ExprKind::Map(entries) = &map.kind else {
            self.wrong::<()>(key, map, "a map such as `{ 2: 0.96, 4: 1.95 }`");
            return Vec::new();
        };
        let mut pairs: Vec<(u64, f64)> = Vec::new();
        for (at, value) in entries {
            let parts = self.number_of("a key of the map", at, keys.clone(), true);
            let Some(parts) = parts else { continue };
            let what = format!("{key} for {parts} parts");
            if let Some(value) = self.number_of(&what, value, values(parts), false) {
                if pairs.iter().any(|(p, _)| *p == parts as u64) {
                    let message = format!("`{parts}` is in the map twice");
                    self.diagnostics
                        .push(Diagnostic::new("E0203", message).at(at.span()));
                }
                pairs.push((parts as u64, value));
            }
        }
        pairs
    }

    pub(super) fn number_of(
        &mut self,
        key: &str,
        value: &Expr,
        range: RangeInclusive<f64>,
        whole: bool,
    ) -> Option<f64> {
        let kind = if whole { "a whole number" } else { "a number" };
        let Some(number) = literal(value) else {
            return match value.kind {
                ExprKind::Error => None,
                _ => self.wrong(key, value, kind),
            };
        };
        if (whole && number.fract() != 0.0) || !range.contains(&number) {
            let (least, most) = (range.start(), range.end());
            let what = format!("{kind} from {least} to {most}");
            return self.wrong(key, value, &what);
        }
        Some(number)
    }

    pub(super) fn wrong<T>(&mut self, key: &str, value: &Expr, expected: &str) -> Option<T> {
        let found = match literal(value) {
            Some(number) => number.to_string(),
            None => describe(value),
        };
        let key = if key.contains(' ') {
            key.to_owned()
        } else {
            format!("`{key}`")
        };
        let message = format!("{key} must be {expected}, found {found}");
        self.diagnostics
            .push(Diagnostic::new("E0403", message).at(value.span()));
        None
    }

    /// A schedule: its name, with its numbers behind it.
    fn schedule(&mut self, value: &Expr) -> Option<Schedule> {
        let text = match &value.kind {
            ExprKind::Name(name) => Some(name.clone()),
            ExprKind::Call(call) => {
                let numbers = call
                    .args
                    .iter()
                    .map(|arg| match (&arg.name, &arg.value.kind) {
                        (None, ExprKind::Number(_, spelling)) => Some(spelling.replace('_', "")),
                        (Some(name), ExprKind::Number(_, spelling)) => {
                            Some(format!("{}={}", name.name, spelling.replace('_', "")))
                        }
                        _ => None,
                    });
                let numbers: Option<Vec<String>> = numbers.collect();
                numbers.map(|numbers| format!("{}:{}", call.callee.name, numbers.join("/")))
            }
            _ => None,
        };
        let expected = "`constant`, `step(30, 0.5)`, `warmup(10)`, `cosine`, `cosine(10)` or \
                        `plateau(factor = 0.5, patience = 10)`, with a factor below 1";
        let found = text.and_then(|text| text.parse().ok());
        found.or_else(|| self.wrong("schedule", value, expected))
    }

    /// A metric: its name, or a string with hyphens.
    fn metric(&mut self) -> Option<Metric> {
        let value = self.get("metric")?;
        let text = match &value.kind {
            ExprKind::Name(text) | ExprKind::Str(text) => Some(text),
            _ => None,
        };
        let expected = format!("one of {}", Metric::ALL.map(Metric::key).join(", "));
        let found = text.and_then(|text| text.parse().ok());
        found.or_else(|| self.wrong("metric", value, &expected))
    }

    /// One of several names.
    fn choice<T: Copy>(&mut self, key: &str, all: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let value = self.get(key)?;
        let found = match &value.kind {
            ExprKind::Name(text) => all.iter().find(|one| name(**one) == text),
            _ => None,
        };
        let names = one_of(all.iter().map(|one| name(*one)));
        found.copied().or_else(|| self.wrong(key, value, &names))
    }

    /// A list of numbers or `all`, one for each hop.
    fn fanouts(&mut self, key: &str) -> Vec<Fanout> {
        const EXPECTED: &str =
            "a list such as `[25, 10]` or `[all, all]`, one number or `all` for each hop";
        let Some(value) = self.get(key) else {
            return Vec::new();
        };
        let ExprKind::List(entries) = &value.kind else {
            self.wrong::<()>(key, value, EXPECTED);
            return Vec::new();
        };
        if entries.is_empty() || entries.len() > MAX_HOPS {
            let expected = format!("a list of 1 to {MAX_HOPS} fanouts");
            self.wrong::<()>(key, value, &expected);
            return Vec::new();
        }
        let mut fanouts = Vec::new();
        for entry in entries {
            let number = match &entry.kind {
                ExprKind::Name(name) if name == "all" => Some(ALL),
                ExprKind::Number(..) => self
                    .number_of("a fanout", entry, 0.0..=LARGEST_BATCH, true)
                    .map(|number| number as u32),
                _ => self.wrong(key, entry, EXPECTED),
            };
            fanouts.extend(number.map(Fanout::Each));
        }
        fanouts
    }

    fn relaxations(&mut self, value: &Expr) -> Vec<Relaxation> {
        let names = one_of(Relaxation::ALL.iter().map(|r| r.name()));
        let ExprKind::List(entries) = &value.kind else {
            self.wrong::<()>("allow", value, &format!("a list of {names}"));
            return Vec::new();
        };
        let mut relaxations = Vec::new();
        for entry in entries {
            let found = match &entry.kind {
                ExprKind::Name(name) => Relaxation::ALL.into_iter().find(|r| r.name() == name),
                _ => None,
            };
            match found {
                Some(relaxation) if !relaxations.contains(&relaxation) => {
                    relaxations.push(relaxation);
                }
                Some(_) => {}
                None => {
                    let message = format!("a relaxation is {names}, found {}", describe(entry));
                    self.diagnostics
                        .push(Diagnostic::new("E0403", message).at(entry.span()));
                }
            }
        }
        relaxations.sort();
        relaxations
    }
}

/// The value of a number literal, with optional minus.
fn literal(value: &Expr) -> Option<f64> {
    match &value.kind {
        ExprKind::Number(number, _) => Some(*number),
        ExprKind::Unary(UnaryOp::Neg, inner) => match inner.kind {
            ExprKind::Number(number, _) => Some(-number),
            _ => None,
        },
        _ => None,
    }
}

/// Describes an expression in messages.
fn describe(value: &Expr) -> String {
    match &value.kind {
        ExprKind::Number(..) => "a number".to_owned(),
        ExprKind::Str(_) => "a string".to_owned(),
        ExprKind::Bool(value) => format!("`{value}`"),
        ExprKind::Name(name) => format!("`{name}`"),
        ExprKind::List(_) => "a list".to_owned(),
        ExprKind::Map(_) => "a map".to_owned(),
        ExprKind::Call(call) => format!("a call of `{}`", call.callee.name),
        _ => "an expression; settings are plain values".to_owned(),
    }
}
