//! Scores of predictions, from the logits of all vertices, as scikit-learn defines them.

use gnnc_graph::Labels;
use gnnc_ir::graph::op::LabelKind;
use gnnc_ir::words::metric::Metric;

/// The logits of all vertices beside their labels.
#[derive(Clone, Copy)]
pub struct Scored<'a> {
    /// `[vertices x classes]`, row by row.
    pub logits: &'a [f32],
    /// Columns of the logits, at least 1.
    pub classes: usize,
    /// The labels of the same vertices.
    pub labels: &'a Labels,
    /// What the loss takes them for.
    pub kind: LabelKind,
    /// The group of each vertex, among whose members it is ranked ([`gnnc_graph::GraphData::rivals`]).
    pub rivals: &'a [u32],
}

/// Checks that a metric can score predictions of such labels.
///
/// # Errors
/// Which metrics score them.
pub fn fits(metric: Metric, kind: LabelKind) -> Result<(), String> {
    let scores = |metric: &Metric| match metric {
        Metric::Accuracy => kind == LabelKind::Class,
        Metric::MicroF1 | Metric::MacroF1 | Metric::RocAuc | Metric::AveragePrecision => {
            kind != LabelKind::Numbers
        }
        Metric::Mrr | Metric::Hits10 | Metric::Hits20 | Metric::Hits50 | Metric::Hits100 => {
            kind == LabelKind::Several
        }
        Metric::Mae | Metric::Rmse | Metric::R2 => kind == LabelKind::Numbers,
    };
    if scores(&metric) {
        return Ok(());
    }
    let labels = match kind {
        LabelKind::Class => "one class a vertex",
        LabelKind::Several => "several labels a vertex",
        LabelKind::Numbers => "numbers",
    };
    let keys = Metric::ALL.into_iter().filter(scores).map(Metric::key);
    let keys: Vec<String> = keys.map(|key| key.replace('_', "-")).collect();
    Err(format!(
        "found the metric {} for a loss of {labels}, expected one of {}",
        metric.name(),
        keys.join(", ")
    ))
}

/// A class or a label as its own yes-or-no question: the score of each vertex, and whether it has the class.
type Answers = Vec<(f64, bool)>;

/// Predicted numbers with their labels.
type Pairs = Vec<(f64, f64)>;

impl Scored<'_> {
    /// The score on some vertices; those without a label do not count, nor do labels that are unknown. `None` if nothing can be scored: no vertices,
    /// or, for the areas under curves, no class that some vertices have and others lack.
    pub fn score(&self, metric: Metric, vertices: impl Iterator<Item = usize>) -> Option<f64> {
        let known: Vec<usize> = vertices.filter(|v| self.labels.known(*v)).collect();
        if known.is_empty() {
            return None;
        }
        match metric {
            Metric::Accuracy => {
                let right = known.iter().filter(|v| self.is_right(**v)).count();
                Some(right as f64 / known.len() as f64)
            }
            Metric::MicroF1 => {
                let counts = self.counts(&known);
                let sum = |of: fn(&Counts) -> u64| counts.iter().map(of).sum();
                let all = Counts {
                    both: sum(|c| c.both),
                    predicted: sum(|c| c.predicted),
                    labeled: sum(|c| c.labeled),
                };
                Some(all.f1())
            }
            Metric::MacroF1 => {
                // Of one class a vertex, those that occur; of several, all of which some labels are known.
                let several = self.kind == LabelKind::Several;
                let is_known = |class| known.iter().any(|v| self.is_known(*v, class));
                let counts = self.counts(&known).into_iter().enumerate();
                let counted = counts.filter(|(class, c)| match several {
                    true => is_known(*class),
                    false => c.predicted + c.labeled > 0,
                });
                mean(counted.map(|(_, c)| c.f1()))
            }
            Metric::RocAuc => mean(self.questions(&known).filter_map(roc_auc)),
            Metric::AveragePrecision => mean(self.questions(&known).filter_map(average_precision)),
            Metric::Mrr => {
                let of_rivals = self.by_rivals(&known);
                mean(of_rivals.flat_map(|answers| reciprocal_ranks(&answers)))
            }
            Metric::Hits10 => self.hits(&known, 10),
            Metric::Hits20 => self.hits(&known, 20),
            Metric::Hits50 => self.hits(&known, 50),
            Metric::Hits100 => self.hits(&known, 100),
            Metric::Mae => {
                let columns = self.columns(&known).flatten();
                mean(columns.map(|(value, label)| (value - label).abs()))
            }
            Metric::Rmse => mean(self.columns(&known).filter_map(rmse)),
            Metric::R2 => mean(self.columns(&known).filter_map(r2)),
        }
    }

    /// The mean over labels of [`hits`].
    fn hits(&self, known: &[usize], best: usize) -> Option<f64> {
        mean(
            self.questions(known)
                .filter_map(|answers| hits(&answers, best)),
        )
    }

    /// The answers of each group of rivals, label by label.
    fn by_rivals<'a>(&'a self, known: &'a [usize]) -> impl Iterator<Item = Answers> + 'a {
        let mut known: Vec<usize> = known.to_vec();
        known.sort_by_key(|v| self.rivals[*v]);
        let groups = known.chunk_by(|a, b| self.rivals[*a] == self.rivals[*b]);
        let answers = groups.flat_map(|group| self.questions(group).collect::<Vec<_>>());
        answers.collect::<Vec<_>>().into_iter()
    }

    fn row(&self, v: usize) -> &[f32] {
        &self.logits[v * self.classes..][..self.classes]
    }

    /// For each column of numbers, what is predicted and the label of each vertex.
    fn columns<'a>(&'a self, known: &'a [usize]) -> impl Iterator<Item = Pairs> + 'a {
        (0..self.classes).map(move |column| {
            let label = |v: usize| match self.labels {
                Labels::Values { values, .. } => f64::from(values[v * self.classes + column]),
                Labels::None | Labels::Single(_) => f64::NAN,
            };
            let pair = |v: &usize| (f64::from(self.row(*v)[column]), label(*v));
            known
                .iter()
                .map(pair)
                .filter(|(_, label)| !label.is_nan())
                .collect()
        })
    }

    /// Whether it is known if a vertex has a class.
    fn is_known(&self, v: usize, class: usize) -> bool {
        match self.labels {
            Labels::None | Labels::Single(_) => true,
            Labels::Values { values, .. } => !values[v * self.classes + class].is_nan(),
        }
    }

    fn has(&self, v: usize, class: usize) -> bool {
        match self.labels {
            Labels::None => false,
            Labels::Single(labels) => i64::from(labels[v]) == class as i64,
            Labels::Values { values, .. } => values[v * self.classes + class] >= 0.5,
        }
    }

    /// Which classes a vertex is said to have: the first of the largest logits, or, of several labels, those with a
    /// probability above one half.
    fn says(&self, v: usize) -> impl Fn(usize) -> bool {
        let row = self.row(v);
        let larger = |best: usize, class: usize| match row[class] > row[best] {
            true => class,
            false => best,
        };
        let only = (self.kind != LabelKind::Several).then(|| (1..row.len()).fold(0, larger));
        move |class| only.map_or(row[class] > 0.0, |only| only == class)
    }

    fn is_right(&self, v: usize) -> bool {
        let says = self.says(v);
        (0..self.classes)
            .filter(|class| self.is_known(v, *class))
            .all(|class| self.has(v, class) == says(class))
    }

    fn counts(&self, known: &[usize]) -> Vec<Counts> {
        let mut counts = vec![Counts::default(); self.classes];
        for &v in known {
            let says = self.says(v);
            for (class, count) in counts.iter_mut().enumerate() {
                if !self.is_known(v, class) {
                    continue;
                }
                let (has, says) = (self.has(v, class), says(class));
                count.both += u64::from(has && says);
                count.predicted += u64::from(says);
                count.labeled += u64::from(has);
            }
        }
        counts
    }

    /// The questions that areas are computed of: each label; each class against the rest, by its share of softmax;
    /// of two classes only the second.
    fn questions<'a>(&'a self, known: &'a [usize]) -> impl Iterator<Item = Answers> + 'a {
        let single = self.kind == LabelKind::Class;
        let two = single && self.classes == 2;
        let first = usize::from(two);
        (first..self.classes).map(move |class| {
            let answer = |v: &usize| {
                let row = self.row(*v);
                let score = match (two, single) {
                    (true, _) => f64::from(row[1]) - f64::from(row[0]),
                    (false, true) => share(row, class),
                    (false, false) => f64::from(row[class]),
                };
                (score, self.has(*v, class))
            };
            let known = known.iter().filter(|v| self.is_known(**v, class));
            known.map(answer).collect()
        })
    }
}

/// What softmax gives a class.
fn share(row: &[f32], class: usize) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weight = |z: f32| (f64::from(z) - f64::from(most)).exp();
    weight(row[class]) / row.iter().copied().map(weight).sum::<f64>()
}

/// How often a class was predicted and labeled.
#[derive(Clone, Copy, Default)]
struct Counts {
    both: u64,
    predicted: u64,
    labeled: u64,
}

impl Counts {
    /// The harmonic mean of precision and recall; 0 for a class that does not occur.
    fn f1(self) -> f64 {
        2.0 * self.both as f64 / (self.predicted + self.labeled).max(1) as f64
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let sum: f64 = values.iter().sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// Vertices of equal scores, from the highest score down: how many have the class, and how many lack it.
fn tied(mut answers: Answers) -> Vec<[f64; 2]> {
    answers.sort_by(|a, b| b.0.total_cmp(&a.0));
    let groups = answers.chunk_by(|a, b| a.0 == b.0);
    let count = |group: &[(f64, bool)]| {
        let have = group.iter().filter(|(_, has)| *has).count();
        [have as f64, (group.len() - have) as f64]
    };
    groups.map(count).collect()
}

/// The chance that a vertex with the class has a higher score than one without, where ties count half; `None` if
/// there are not both.
fn roc_auc(answers: Answers) -> Option<f64> {
    let (mut have, mut lack, mut above) = (0.0, 0.0, 0.0);
    for [having, lacking] in tied(answers) {
        above += lacking * (have + having / 2.0);
        have += having;
        lack += lacking;
    }
    (have * lack > 0.0).then(|| above / (have * lack))
}

/// The sum over thresholds of the precision there times the recall gained; `None` if no vertex has the class.
fn average_precision(answers: Answers) -> Option<f64> {
    let (mut have, mut all, mut sum) = (0.0, 0.0, 0.0);
    for [having, lacking] in tied(answers) {
        have += having;
        all += having + lacking;
        sum += having * have / all;
    }
    (have > 0.0).then(|| sum / have)
}

/// For each vertex that has the class, one over its rank among those that lack it, where ties count half.
/// Empty if none lack it.
fn reciprocal_ranks(answers: &Answers) -> Vec<f64> {
    let scores = |wanted: bool| {
        let of = answers.iter().filter(move |(_, has)| *has == wanted);
        of.map(|(score, _)| *score)
    };
    let mut lacking: Vec<f64> = scores(false).collect();
    if lacking.is_empty() {
        return Vec::new();
    }
    lacking.sort_by(f64::total_cmp);
    let rank = |score: f64| {
        let below = lacking.partition_point(|other| other.total_cmp(&score).is_lt());
        let up_to = lacking.partition_point(|other| other.total_cmp(&score).is_le());
        let (above, equal) = (lacking.len() - up_to, up_to - below);
        1.0 + above as f64 + equal as f64 / 2.0
    };
    scores(true).map(|score| 1.0 / rank(score)).collect()
}

/// The share of the vertices with the class that score above the `best`-th score of those without (Open
/// Graph Benchmark's Hits@K); `None` if fewer lack it, or none has it.
fn hits(answers: &Answers, best: usize) -> Option<f64> {
    let mut lacking: Vec<f64> = (answers.iter())
        .filter(|(_, has)| !has)
        .map(|(score, _)| *score)
        .collect();
    lacking.sort_by(|a, b| b.total_cmp(a));
    let least = *lacking.get(best - 1)?;
    let having = answers.iter().filter(|(_, has)| *has);
    mean(having.map(|(score, _)| f64::from(u8::from(*score > least))))
}

fn rmse(pairs: Pairs) -> Option<f64> {
    let squares = mean(pairs.iter().map(|(value, label)| (value - label).powi(2)));
    squares.map(f64::sqrt)
}

/// One less the squared error as a share of the labels' variance; for labels that are all alike, 1 if there is no
/// error and 0 otherwise; `None` for a single vertex.
fn r2(pairs: Pairs) -> Option<f64> {
    let middle = mean(pairs.iter().map(|(_, label)| *label)).filter(|_| pairs.len() > 1)?;
    let errors: f64 = pairs
        .iter()
        .map(|(value, label)| (value - label).powi(2))
        .sum();
    let variance: f64 = pairs
        .iter()
        .map(|(_, label)| (label - middle).powi(2))
        .sum();
    Some(match (errors > 0.0, variance > 0.0) {
        (_, true) => 1.0 - errors / variance,
        (false, false) => 1.0,
        (true, false) => 0.0,
    })
}

#[cfg(test)]
mod tests;
