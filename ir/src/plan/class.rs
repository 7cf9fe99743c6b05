//! Statistical classes: what decides how many steps a run needs to reach a score.

use super::{Partitioner, Relaxation};
use crate::program::Skipping;
use crate::words::sampling::{
    CacheBy, Cut, Exclude, Fanout, Kind, Negatives, Sampling, SamplingSettings,
};
use crate::words::spelling::counted;
use crate::words::storage::Storage;
use crate::words::wire::Wire;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What decides how many optimizer steps a run of a model needs to reach a score. Candidates of one class train the same
/// function with the same gradients, up to the order of sums, wherever their work is placed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticalClass {
    /// What a step computes.
    pub method: Method,
    /// How tensors are stored.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
    /// How rows travel between ranks.
    #[serde(default, skip_serializing_if = "Wire::is_f32")]
    pub wire: Wire,
}

/// What a step computes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Method {
    /// The model as written, on the whole graph.
    Exact,
    /// All transforms before all aggregations, on the whole graph.
    Decoupled,
    /// The whole graph in chunks, which read rows of earlier epochs where a chunk's turn has not come.
    Histories {
        /// Chunks of each part.
        chunks: u32,
        /// Epochs between updates of histories.
        interval: u32,
        /// Whether the order of chunks changes every epoch.
        shuffle: bool,
        /// The parts that are cut into chunks, if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        division: Option<Division>,
    },
    /// The whole graph, with copies of other ranks' rows that may be of earlier epochs.
    Copies {
        /// When rows are sent.
        skip: Skipping,
        /// Whose rows they are.
        division: Division,
    },
    /// Sampled batches.
    Sampled(SampledClass),
}

/// How vertices are divided among ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Division {
    /// Number of parts.
    pub ranks: u32,
    /// Who made them.
    pub partitioner: Partitioner,
}

/// Which batches a run trains on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledClass {
    /// Seeds of a batch, of all ranks together.
    pub batch: u32,
    /// One fanout a hop, the hop next to the seeds first.
    #[serde(with = "as_text")]
    pub fanouts: Vec<Fanout>,
    /// How edges are drawn.
    #[serde(default)]
    pub sampler: Kind,
    /// How an epoch is cut.
    #[serde(default)]
    pub cut: Cut,
    /// The parts, if every rank draws batches from its own share of the seeds: their union then depends on the
    /// partition. `None` if batches are the same on any number of ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_roots: Option<Division>,
    /// Which edges hops leave out.
    #[serde(default)]
    pub exclude: Exclude,
    /// Which pairs without a link are trained on.
    #[serde(default)]
    pub negatives: Negatives,
    /// Whether aggregations that depend on the data alone are made beforehand, over all neighbors.
    #[serde(default, rename = "static", skip_serializing_if = "is_false")]
    pub beforehand: bool,
    /// Whether optimizers step only the rows of embeddings that a batch has.
    #[serde(default, rename = "lazy_embeddings", skip_serializing_if = "is_false")]
    pub lazy: bool,
    /// Batches by which the weights are late that a batch reads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay: u32,
    /// Rows of embeddings of other ranks that each rank has copies of; `None` if it has none that may be old.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copies: Option<CopiesClass>,
    /// Fanouts of evaluations on batches, whose scores differ from those on the whole graph. None if evaluations run
    /// over the whole graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "as_text")]
    pub eval_fanouts: Vec<Fanout>,
}

/// Copies of embeddings of other ranks, which batches read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopiesClass {
    /// Rows of each rank.
    pub rows: u32,
    /// Which.
    pub by: CacheBy,
    /// Steps that they may lack.
    pub age: u32,
    /// The parts.
    pub division: Division,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Fanouts as they are written on the command line.
mod as_text {
    use super::Fanout;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(all: &[Fanout], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(Fanout::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Fanout>, D::Error> {
        let all = Vec::<String>::deserialize(from)?;
        let all = all.iter().map(|text| text.parse());
        all.collect::<Result<_, _>>().map_err(D::Error::custom)
    }
}

impl StatisticalClass {
    /// The model as written, on the whole graph, in 32 bits.
    pub const EXACT: Self = Self {
        method: Method::Exact,
        storage: Storage::F32,
        wire: Wire::F32,
    };

    /// Whether it computes the model as written on the whole graph, from rows as they are.
    pub fn is_exact(&self) -> bool {
        self.method == Method::Exact && self.wire.is_f32()
    }

    /// The relaxations that it needs.
    pub fn relaxations(&self) -> Vec<Relaxation> {
        let quantise = (!self.wire.is_f32()).then_some(Relaxation::Quantise);
        let mut needed = self.of_method();
        needed.extend(quantise);
        needed
    }

    fn of_method(&self) -> Vec<Relaxation> {
        match &self.method {
            Method::Exact => Vec::new(),
            Method::Decoupled => vec![Relaxation::Decouple],
            Method::Histories { .. } | Method::Copies { .. } => vec![Relaxation::StaleEmbeddings],
            Method::Sampled(sampled) if sampled.delay > 0 || sampled.copies.is_some() => {
                vec![Relaxation::Sample, Relaxation::StaleWeights]
            }
            Method::Sampled(_) => vec![Relaxation::Sample],
        }
    }

    /// The batches that it trains on, if it does.
    pub fn sampled(&self) -> Option<&SampledClass> {
        match &self.method {
            Method::Sampled(sampled) => Some(sampled),
            Method::Exact
            | Method::Decoupled
            | Method::Histories { .. }
            | Method::Copies { .. } => None,
        }
    }
}

impl SampledClass {
    /// The class of batches that settings ask for; `None` if their size or the fanouts are open. `division` is how
    /// vertices are divided among several ranks.
    pub fn of(settings: &SamplingSettings, division: Option<Division>) -> Option<Self> {
        use crate::words::sampling::Roots;
        let Sampling {
            batch,
            fanouts,
            over: _,
            kind,
            cut,
            roots,
            exclude,
            negatives,
            cache,
            // These change no number.
            merges: _,
            topology: _,
        } = settings.sampling()?;
        Some(Self {
            batch,
            fanouts,
            sampler: kind,
            cut,
            own_roots: match roots {
                Roots::Own => division,
                Roots::Home | Roots::Dealt => None,
            },
            exclude,
            negatives,
            beforehand: settings.beforehand == Some(true),
            lazy: settings.lazy == Some(true),
            delay: settings.delay.unwrap_or(0),
            copies: cache.zip(division).and_then(|(cache, division)| {
                Some(CopiesClass {
                    rows: cache.rows,
                    by: cache.by,
                    // Copies that lack no step are the rows themselves.
                    age: cache.age.filter(|age| *age > 0)?,
                    division,
                })
            }),
            eval_fanouts: settings.eval_fanouts.clone(),
        })
    }

    /// Settings that ask for these batches, whatever a model says; what changes no number is open.
    pub fn settings(&self) -> SamplingSettings {
        use crate::words::sampling::Roots;
        SamplingSettings {
            batch: Some(self.batch),
            fanouts: self.fanouts.clone(),
            sampler: Some(self.sampler),
            cut: Some(self.cut),
            eval_fanouts: self.eval_fanouts.clone(),
            roots: self.own_roots.map(|_| Roots::Own),
            exclude: Some(self.exclude),
            negatives: Some(self.negatives),
            delay: Some(self.delay),
            beforehand: Some(self.beforehand),
            lazy: Some(self.lazy),
            cache: self.copies.map(|copies| copies.rows),
            cache_by: self.copies.map(|copies| copies.by),
            cache_age: self.copies.map(|copies| copies.age),
            ..SamplingSettings::default()
        }
    }
}

/// Such as `4 parts by metis`.
impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} by {}", counted(self.ranks, "part"), self.partitioner)
    }
}

/// Such as `whole graph`, `decoupled`, `histories of 16 chunks, updated every 10 epochs` or `batches of 512, fanouts
/// 10,10`, followed by what is not usual.
impl fmt::Display for StatisticalClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.method {
            Method::Exact => f.write_str("whole graph")?,
            Method::Decoupled => f.write_str("decoupled")?,
            Method::Histories {
                chunks,
                interval,
                shuffle,
                division,
            } => {
                let chunks = counted(chunks, "chunk");
                let every = counted(interval, "epoch");
                write!(f, "histories of {chunks}, updated every {every}")?;
                if !shuffle {
                    f.write_str(", not shuffled")?;
                }
                if let Some(division) = division {
                    write!(f, ", {division}")?;
                }
            }
            Method::Copies { skip, division } => write!(f, "stale copies {skip}, {division}")?,
            Method::Sampled(sampled) => sampled.fmt(f)?,
        }
        if !self.storage.is_f32() {
            write!(f, ", {}", self.storage)?;
        }
        match self.wire.is_f32() {
            true => Ok(()),
            false => write!(f, ", rows sent as {}", self.wire),
        }
    }
}

impl fmt::Display for SampledClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |all: &[Fanout]| {
            let all: Vec<String> = all.iter().map(Fanout::to_string).collect();
            all.join(",")
        };
        write!(
            f,
            "batches of {}, fanouts {}",
            self.batch,
            list(&self.fanouts)
        )?;
        if self.sampler != Kind::default() {
            write!(f, ", {}", self.sampler)?;
        }
        if self.cut != Cut::default() {
            write!(f, ", cut {}", self.cut)?;
        }
        if self.exclude != Exclude::default() {
            write!(f, ", exclude {}", self.exclude)?;
        }
        if self.negatives != Negatives::default() {
            write!(f, ", negatives {}", self.negatives)?;
        }
        if self.beforehand {
            f.write_str(", static")?;
        }
        if self.lazy {
            f.write_str(", lazy embeddings")?;
        }
        if self.delay > 0 {
            write!(f, ", delay {}", self.delay)?;
        }
        if let Some(copies) = self.copies {
            let CopiesClass {
                rows,
                by,
                age,
                division,
            } = copies;
            let (rows, age) = (counted(rows, "row"), counted(age, "step"));
            write!(
                f,
                ", copies of {rows} by {by} that lack up to {age}, {division}"
            )?;
        }
        if let Some(division) = self.own_roots {
            write!(f, ", roots own of {division}")?;
        }
        if !self.eval_fanouts.is_empty() {
            write!(f, ", evaluated with {}", list(&self.eval_fanouts))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::sampling::Roots;

    fn settings() -> SamplingSettings {
        SamplingSettings {
            batch: Some(512),
            fanouts: vec![Fanout::Each(10), Fanout::Types(vec![5, u32::MAX])],
            delay: Some(2),
            ..SamplingSettings::default()
        }
    }

    #[test]
    fn classes_survive_their_file() {
        let division = Division {
            ranks: 4,
            partitioner: Partitioner::Metis,
        };
        let own = SamplingSettings {
            roots: Some(Roots::Own),
            eval_fanouts: vec![Fanout::Each(u32::MAX)],
            cut: Some(Cut::Drop),
            ..settings()
        };
        let methods = [
            Method::Exact,
            Method::Decoupled,
            Method::Histories {
                chunks: 16,
                interval: 10,
                shuffle: true,
                division: None,
            },
            Method::Copies {
                skip: "adaptive:1/cut".parse().unwrap(),
                division,
            },
            Method::Sampled(SampledClass::of(&settings(), None).unwrap()),
            Method::Sampled(SampledClass::of(&own, Some(division)).unwrap()),
        ];
        let names = [
            "whole graph, bf16, rows sent as int8",
            "decoupled, bf16, rows sent as int8",
            "histories of 16 chunks, updated every 10 epochs, bf16, rows sent as int8",
            "stale copies adaptive:1/cut, 4 parts by metis, bf16, rows sent as int8",
            "batches of 512, fanouts 10,5/all, delay 2, bf16, rows sent as int8",
            "batches of 512, fanouts 10,5/all, cut drop, delay 2, roots own of 4 parts by metis, evaluated with all, bf16, rows sent as int8",
        ];
        for (method, name) in methods.into_iter().zip(names) {
            let class = StatisticalClass {
                method,
                storage: Storage::Bf16,
                wire: Wire::Int8,
            };
            assert_eq!(class.to_string(), name);
            let text = toml::to_string(&class).unwrap();
            assert_eq!(toml::from_str::<StatisticalClass>(&text).unwrap(), class);
        }
        let text = "[method]\nkind = \"sampled\"\nbatch = 5\nfanouts = [\"2\"]\nfanout = 1\n";
        let wrong = toml::from_str::<StatisticalClass>(text).unwrap_err();
        assert!(
            wrong.to_string().contains("unknown field `fanout`"),
            "{wrong}"
        );
    }

    #[test]
    fn what_changes_no_number_changes_no_class() {
        let of = |settings: &SamplingSettings| SampledClass::of(settings, None);
        let class = of(&settings()).unwrap();
        let other = SamplingSettings {
            roots: Some(Roots::Dealt),
            prefetch: Some(1),
            sampler: Some(Kind::Neighbor),
            beforehand: Some(false),
            ..settings()
        };
        assert_eq!(of(&other).as_ref(), Some(&class));
        assert_eq!(of(&class.settings()), Some(class));
        assert_eq!(of(&SamplingSettings::default()), None);
    }
}
