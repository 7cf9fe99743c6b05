//! The ranks of links among all vertices that could be at their ends.

use crate::{Compiled, Error, Loaded, Metric, TrainOptions, Weights, outputs};
use gnnc_graph::GraphData;
use gnnc_graph::links::Ends;
use gnnc_graph::sample::Pairs;
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Checks that ranks have such a score.
///
/// # Errors
/// Which scores they have.
pub fn fits(metric: Metric) -> Result<(), String> {
    let none = Ranks {
        ranks: vec![1.0],
        scored: 0,
        epochs: 0,
        from: PathBuf::new(),
    };
    match none.score(metric) {
        Some(_) => Ok(()),
        None => Err(format!(
            "found the metric {} of ranks, expected one of mrr, hits10, hits20, hits50, hits100",
            metric.name()
        )),
    }
}

/// Which links are ranked, and among which vertices.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The vertices of pairs; those of them that are links are ranked.
    pub pairs: Vec<u32>,
    /// The vertices that could be at an end; `None` for all.
    pub candidates: Option<Vec<u32>>,
}

/// Ranks of links.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// One for each link; one for each of its ends if edges have no direction. 1 is the best, and equal scores
    /// count half.
    pub ranks: Vec<f64>,
    /// Pairs that were scored.
    pub scored: u64,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters.
    pub from: PathBuf,
}

impl Ranks {
    /// A score of the ranks; `None` for one that is no score of ranks, or if there are none.
    pub fn score(&self, metric: Metric) -> Option<f64> {
        let best = |most: f64| self.mean(|rank| f64::from(u8::from(rank <= most)));
        match metric {
            Metric::Mrr => self.mean(|rank| 1.0 / rank),
            Metric::Hits10 => best(10.0),
            Metric::Hits20 => best(20.0),
            Metric::Hits50 => best(50.0),
            Metric::Hits100 => best(100.0),
            Metric::Accuracy | Metric::MicroF1 | Metric::MacroF1 => None,
            Metric::RocAuc | Metric::AveragePrecision => None,
            Metric::Mae | Metric::Rmse | Metric::R2 => None,
        }
    }

    fn mean(&self, of: impl Fn(f64) -> f64) -> Option<f64> {
        let sum: f64 = self.ranks.iter().map(|rank| of(*rank)).sum();
        (!self.ranks.is_empty()).then(|| sum / self.ranks.len() as f64)
    }
}

/// A vertex at one end of some links, and the ends that are asked for.
struct Question {
    vertex: u32,
    /// The end at which the vertex is.
    at: End,
    /// The other ends of the links that are ranked, ascending.
    answers: Vec<u32>,
}

/// Scores of the candidates of a question, as far as they are known.
#[derive(Default)]
struct Scores {
    links: Vec<f32>,
    others: Vec<f32>,
}

/// Ranks links by a trained model, each among the pairs of one of its ends with each candidate (Bordes et al.,
/// 2013). Candidates that are known to be linked to that end are left out: neighbors, and the ends of other links
/// of the graph's pairs. A pair to score takes the place of one of the graph's pairs, so as many are scored
/// together as it has, in as much memory.
///
/// # Errors
/// A graph without pairs; no links among those asked for; candidates that are no vertices; and those of
/// [`outputs`].
pub fn ranks(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    weights: Weights<'_>,
    asked: &Asked,
) -> Result<Ranks, Error> {
    let none = || {
        let why = "there are no links to rank among these pairs; `gnnc graph links` makes some of a graph";
        Error::Input(why.to_owned())
    };
    let data = loaded.labeled()?;
    let pairs = Pairs::of(data).ok_or_else(none)?;
    let ends = data.ends().ok_or_else(none)?;
    let known = Known::new(data, &pairs, &ends);
    let questions = known.questions(data, &ends, &asked.pairs);
    if questions.is_empty() {
        return Err(none());
    }
    let vertices = data.subjects().start;
    let all: Vec<u32> = match &asked.candidates {
        Some(some) => some.clone(),
        None => (0..vertices).collect(),
    };
    if let Some(wrong) = all.iter().find(|v| **v >= vertices) {
        return Err(Error::Input(format!(
            "candidate {wrong} is not one of the {vertices} vertices that pairs are made of"
        )));
    }
    let mut scorer = Scorer {
        loaded: loaded.clone(),
        data,
        compiled,
        options,
        weights,
        room: ends.len(),
        waiting: Vec::new(),
        found: BTreeMap::new(),
        out: Ranks {
            ranks: Vec::new(),
            scored: 0,
            epochs: 0,
            from: PathBuf::new(),
        },
    };
    for (number, question) in questions.iter().enumerate() {
        for answer in &question.answers {
            scorer.add(number, true, known.pair(question, *answer))?;
        }
        let linked = known.linked(question);
        let is_free = |v: &&u32| **v != question.vertex && !linked.contains(*v);
        for other in all.iter().filter(is_free) {
            scorer.add(number, false, known.pair(question, *other))?;
        }
    }
    scorer.score()?;
    scorer.finish(questions.len());
    Ok(scorer.out)
}

/// Which vertices are linked.
struct Known {
    /// Whether edges have no direction.
    both_ways: bool,
    /// Whether pairs begin at the smaller vertex.
    ordered: bool,
    /// The other ends of links that begin, and that end, at a vertex.
    from: BTreeMap<u32, BTreeSet<u32>>,
    to: BTreeMap<u32, BTreeSet<u32>>,
    links: Vec<bool>,
}

impl Known {
    fn new(data: &GraphData, pairs: &Pairs, ends: &[Ends]) -> Self {
        let plain = data.topology.only(EdgeSet::Plain);
        let is_link = |v: u32| data.is_link(v) == Some(true);
        let mut known = Self {
            both_ways: plain.is_symmetric(),
            ordered: pairs.ordered(),
            from: BTreeMap::new(),
            to: BTreeMap::new(),
            links: data.subjects().map(is_link).collect(),
        };
        for v in 0..plain.vertices() {
            for u in plain.in_neighbours(v) {
                known.link(*u, v);
            }
        }
        for (place, ends) in ends.iter().enumerate() {
            if known.links[place] {
                known.link(ends.source, ends.target);
            }
            if known.links[place] && known.both_ways {
                known.link(ends.target, ends.source);
            }
        }
        known
    }

    fn link(&mut self, source: u32, target: u32) {
        self.from.entry(source).or_default().insert(target);
        self.to.entry(target).or_default().insert(source);
    }

    /// The questions that the links among some pairs are answers of, ascending.
    fn questions(&self, data: &GraphData, ends: &[Ends], pairs: &[u32]) -> Vec<Question> {
        let mut found: BTreeMap<(u32, bool), BTreeSet<u32>> = BTreeMap::new();
        let first = data.subjects().start;
        for place in pairs.iter().filter_map(|pair| pair.checked_sub(first)) {
            let place = place as usize;
            if self.links.get(place) != Some(&true) {
                continue;
            }
            let Ends { source, target } = ends[place];
            found.entry((source, false)).or_default().insert(target);
            if self.both_ways {
                // Without an order of the ends, the second one asks for a first one.
                let at_target = !self.ordered;
                found.entry((target, at_target)).or_default().insert(source);
            }
        }
        let question = |((vertex, at_target), answers): ((u32, bool), BTreeSet<u32>)| Question {
            vertex,
            at: if at_target { End::Dst } else { End::Src },
            answers: answers.into_iter().collect(),
        };
        found.into_iter().map(question).collect()
    }

    /// Vertices that are linked to that of a question.
    fn linked(&self, question: &Question) -> BTreeSet<u32> {
        let of = match question.at {
            End::Src => &self.from,
            End::Dst => &self.to,
        };
        of.get(&question.vertex).cloned().unwrap_or_default()
    }

    /// The pair of a question with a candidate.
    fn pair(&self, question: &Question, other: u32) -> Ends {
        let (source, target) = match question.at {
            End::Src => (question.vertex, other),
            End::Dst => (other, question.vertex),
        };
        match self.ordered && source > target {
            true => Ends {
                source: target,
                target: source,
            },
            false => Ends { source, target },
        }
    }
}

/// A pair whose score is asked for.
struct Waiting {
    question: usize,
    is_link: bool,
    ends: Ends,
}

/// Scores pairs, as many together as a graph has.
struct Scorer<'a> {
    loaded: Loaded,
    data: &'a GraphData,
    compiled: &'a Compiled,
    options: &'a TrainOptions,
    weights: Weights<'a>,
    room: usize,
    waiting: Vec<Waiting>,
    /// By question.
    found: BTreeMap<usize, Scores>,
    out: Ranks,
}

impl Scorer<'_> {
    fn add(&mut self, question: usize, is_link: bool, ends: Ends) -> Result<(), Error> {
        self.waiting.push(Waiting {
            question,
            is_link,
            ends,
        });
        if self.waiting.len() == self.room {
            self.score()?;
            self.finish(question);
        }
        Ok(())
    }

    /// Scores the pairs that wait.
    fn score(&mut self) -> Result<(), Error> {
        let ends: Vec<Ends> = self.waiting.iter().map(|one| one.ends).collect();
        if ends.is_empty() {
            return Ok(());
        }
        if let Some(own) = &mut self.loaded.data {
            own.topology = self.data.with_ends(&ends)?;
        }
        let found = outputs(&self.loaded, self.compiled, self.options, self.weights)?;
        let first = self.data.subjects().start as usize;
        for (place, one) in self.waiting.drain(..).enumerate() {
            let score = found.logits[(first + place) * found.classes];
            let scores = self.found.entry(one.question).or_default();
            match one.is_link {
                true => scores.links.push(score),
                false => scores.others.push(score),
            }
        }
        self.out.scored += ends.len() as u64;
        (self.out.epochs, self.out.from) = (found.epochs, found.from);
        Ok(())
    }

    /// Ranks the links of the questions before one.
    fn finish(&mut self, before: usize) {
        let rest = self.found.split_off(&before);
        for scores in std::mem::replace(&mut self.found, rest).into_values() {
            self.out.ranks.extend(scores.ranks());
        }
    }
}

impl Scores {
    fn ranks(mut self) -> Vec<f64> {
        self.others.sort_by(f32::total_cmp);
        let rank = |score: &f32| {
            let below = self.others.partition_point(|other| other < score);
            let up_to = self.others.partition_point(|other| other <= score);
            let (above, equal) = (self.others.len() - up_to, up_to - below);
            1.0 + above as f64 + equal as f64 / 2.0
        };
        self.links.iter().map(rank).collect()
    }
}
