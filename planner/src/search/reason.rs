//! A candidate as a plan lists it: its numbers, and why it won or lost.

use super::order::seconds;
use super::{PlanRequest, Priced, mixture};
use crate::simulate::range;
use gnnc_ir::plan::{Against, AlphaBasis, Candidate, KindCost, Main, Objective, Range, Volume};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::{Bytes, Seconds, significant};

/// The share of draws in which one takes less time than another.
fn faster(one: &[f64], other: &[f64]) -> Option<f64> {
    let wins = one.iter().zip(other).filter(|(one, other)| one < other);
    (!one.is_empty() && one.len() == other.len())
        .then(|| significant(wins.count() as f64 / one.len() as f64))
}

impl Priced<'_> {
    /// The candidate, chosen or not, compared to the best one.
    pub(super) fn candidate(
        &self,
        request: &PlanRequest,
        chosen: bool,
        best: &Priced,
    ) -> Candidate {
        let estimate = &self.estimate;
        let epoch = &estimate.epoch;
        let breakdown = epoch.breakdown.iter().map(|kind| KindCost {
            seconds: rounded(kind.seconds),
            ..kind.clone()
        });
        let range = range(epoch.seconds, &self.draws);
        let needed = estimate.peak_memory_bytes.0;
        let has = request.cluster.device.memory.0;
        Candidate {
            placement: self.spec.placement,
            parameters: self.spec.parameters(Some(&self.parts)),
            relaxations: self.spec.relaxations(),
            allowed: self.allowed(),
            fits: estimate.fits,
            epoch_seconds: rounded(epoch.seconds),
            compute_seconds: rounded(epoch.compute_seconds),
            floor_seconds: rounded(epoch.floor_seconds),
            exposed_communication_seconds: rounded(epoch.exposed_communication_seconds),
            bubble_seconds: rounded(epoch.bubble_seconds),
            bytes: epoch.bytes,
            volume: self.volume(),
            peak_memory_bytes: estimate.peak_memory_bytes,
            range: Range {
                low: rounded(range.low),
                high: rounded(range.high),
            },
            basis: estimate.basis,
            eval_bytes: estimate.eval.bytes,
            eval_seconds: rounded(estimate.eval.seconds),
            breakdown: breakdown.collect(),
            ranks_to_fit: self.more_ranks.alone,
            ranks_to_fit_with_host: self.more_ranks.with_host,
            host: self.host,
            lacking_bytes: (!estimate.fits).then(|| Bytes(needed.saturating_sub(has))),
            against_best: (!std::ptr::eq(self, best)).then(|| self.against(best)),
            to_target: self.to_target.clone(),
            reason: format!(
                "{}{}{}{}{}",
                self.reason(request, chosen, best),
                match self.ended {
                    true => mixture::ENDED,
                    false => "",
                },
                self.resting(),
                self.unknown(),
                self.batches(request, best)
            ),
        }
    }

    /// What the bytes of an epoch consist of, and how many rows a message of each kind moves.
    fn volume(&self) -> Volume {
        let sent = &self.estimate.epoch.traffic;
        let slices = f64::from(self.spec.slices());
        let vertices = self.parts.sizes.first().map_or(0, |s| s.of_graph()).max(1);
        let reads = self.parts.reads();
        let rows = match reads.of_groups {
            0 => reads.total() + reads.sums,
            of_groups => of_groups,
        };
        let rows = rows as f64 / vertices as f64;
        let halo = sent.halo_exchange.saturating_add(sent.halo_reduce);
        Volume {
            halo: Bytes(halo),
            halo_between: Bytes(sent.crossing),
            redistribute: Bytes(sent.redistribute),
            all_reduce: Bytes(sent.all_reduce),
            fetch: Bytes(sent.fetch),
            halo_rows: if halo > 0 { significant(rows) } else { 0.0 },
            redistribute_rows: match sent.redistribute {
                0 => 0.0,
                _ => significant((slices - 1.0) / slices),
            },
        }
    }

    fn against(&self, best: &Priced) -> Against {
        let ratio = |own: f64, other: f64| (other > 0.0).then(|| significant(own / other));
        let (own, other) = (&self.estimate, &best.estimate);
        Against {
            seconds: ratio(own.epoch.seconds.0, other.epoch.seconds.0),
            bytes: ratio(own.epoch.bytes.0 as f64, other.epoch.bytes.0 as f64),
            memory: ratio(
                own.peak_memory_bytes.0 as f64,
                other.peak_memory_bytes.0 as f64,
            ),
            faster: faster(&self.draws, &best.draws),
            main: self.main(Some(best)),
        }
    }

    fn reason(&self, request: &PlanRequest, chosen: bool, best: &Priced) -> String {
        let (estimate, bests) = (&self.estimate, &best.estimate);
        let epoch = &estimate.epoch;
        if !estimate.fits {
            return self.misses(request);
        }
        if let Some(told) = &self.told {
            return told.clone();
        }
        if !self.allowed() {
            let needed = self.spec.relaxations();
            let needed: Vec<_> = needed.iter().map(|r| r.permission().name()).collect();
            let needs = format!("needs --allow {}", needed.join(","));
            // If any allowed candidate fits, the first one does.
            if !best.allowed() {
                return format!("{needs}; no allowed candidate fits");
            }
            let gain = bests.epoch.seconds.0 / epoch.seconds.0.max(f64::MIN_POSITIVE);
            return format!("{needs}; {gain:.2} times as fast as the best allowed candidate");
        }
        if chosen {
            let what = match request.objective {
                Objective::Time if request.evaluate_every.is_some() => {
                    "shortest epoch with evaluations"
                }
                Objective::Time | Objective::TimeToAccuracy => "shortest epoch",
                Objective::Memory => "smallest peak memory",
                Objective::Bytes => "fewest bytes sent",
            };
            return format!("{what}: {}", self.mostly(None));
        }
        let behind = match request.objective {
            Objective::Time | Objective::TimeToAccuracy => {
                let [own, other] = [estimate, bests].map(|one| seconds(request, one.timed()));
                let factor = own / other.max(f64::MIN_POSITIVE);
                if significant(own) == significant(other) {
                    "as fast as the best".to_owned()
                } else if request.evaluate_every.is_some() {
                    format!("{factor:.2} times the epoch time of the best, with evaluations")
                } else {
                    format!("{factor:.2} times the epoch time of the best")
                }
            }
            Objective::Memory => {
                let more = estimate.peak_memory_bytes.0;
                let more = Bytes(more.saturating_sub(bests.peak_memory_bytes.0));
                format!("{more} more memory than the best")
            }
            Objective::Bytes => {
                let more = epoch.bytes.0.saturating_sub(bests.epoch.bytes.0);
                format!("sends {} more than the best", Bytes(more))
            }
        };
        format!("{behind}: {}{}", self.mostly(Some(best)), self.why(best))
    }

    /// The copies to and from the host, and the part of their time that nothing hides.
    fn resting(&self) -> String {
        let Some(host) = self.host else {
            return String::new();
        };
        let kinds = self.estimate.epoch.breakdown.iter();
        let copies = kinds.filter(|kind| ["fetch", "store"].contains(&kind.name.as_str()));
        let waited = Seconds(copies.map(|kind| kind.seconds.0).sum());
        let chunks = host.chunks.map(|n| {
            format!("; tensors too large for the device are streamed in up to {n} chunks of rows")
        });
        format!(
            "; offloads {} per node to the host, an epoch fetches {} and stores {}, with {} not \
             hidden{}",
            host.memory,
            host.fetched,
            host.stored,
            waited,
            chunks.unwrap_or_default()
        )
    }

    /// What only a run can tell.
    fn unknown(&self) -> &'static str {
        match self
            .spec
            .knobs
            .skip
            .is_some_and(|skipping| skipping.rule.limit().is_some())
        {
            true => "; priced without skipping, which depends on values",
            false => "",
        }
    }

    /// Steps of an epoch on batches, and when they pay. How many epochs a run needs is not known
    /// without training.
    fn batches(&self, request: &PlanRequest, best: &Priced) -> String {
        let Some(batch) = self.parts.batch.as_ref().filter(|_| self.samples()) else {
            return String::new();
        };
        let epoch = self.estimate.epoch.seconds.0;
        let count = batch.count();
        let step = Seconds(rounded(Seconds(epoch / count.max(1) as f64)).0);
        let levels = batch.expected.iter().map(|sizes| sizes.levels[0]);
        let outermost = levels.max().unwrap_or(0);
        let basis = match batch.basis {
            AlphaBasis::Measured => "drawn",
            AlphaBasis::Declared | AlphaBasis::Interpolated | AlphaBasis::Estimated => "estimated",
        };
        let mut text = format!(
            "; {} of {step} an epoch, each with {} at the outermost level ({basis})",
            counted(count, "step"),
            counted(outermost, "vertex"),
        );
        // For the time to an accuracy, the reason speaks of that.
        let by_epoch = request.objective != Objective::TimeToAccuracy;
        if by_epoch && !best.samples() && epoch > 0.0 {
            let times = best.estimate.epoch.seconds.0 / epoch;
            text += &format!(
                "; trains another function than the whole graph: faster if it needs fewer than {times:.2} times as many \
                 epochs"
            );
        }
        text
    }

    /// How much memory it lacks, and what would help.
    fn misses(&self, request: &PlanRequest) -> String {
        let needed = self.estimate.peak_memory_bytes;
        let has = request.cluster.device.memory;
        let lacks = Bytes(needed.0.saturating_sub(has.0));
        let ranks = self.more_ranks.alone.map(|ranks| counted(ranks, "rank"));
        let hosts = self
            .more_ranks
            .with_host
            .map(|ranks| format!("{} with their hosts", counted(ranks, "rank")));
        let remedies: Vec<String> = hosts.into_iter().chain(ranks).collect();
        let remedy = match remedies.join(" or ") {
            none if none.is_empty() => format!("{lacks} more per rank would fit"),
            remedies => format!("{remedies} would fit, or {lacks} more per rank"),
        };
        let device = &request.cluster.device.name;
        let copies = self.copies.iter();
        let copies = copies.map(|(name, bytes)| format!("{bytes} for `{name}`"));
        let copies = match copies.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            list => format!("; rows of earlier epochs take {list}"),
        };
        let host = self.helpless.as_ref();
        let host = host.map_or_else(String::new, |why| format!("; {why}"));
        let training = self.training.map_or_else(String::new, |alone| {
            format!(
                " ({alone} to train, the rest to evaluate on the whole graph, which --eval-fanouts avoids)"
            )
        });
        format!(
            "does not fit: {needed} needed{training}, {device} has {has}; {remedy}{host}{copies}"
        )
    }

    /// What takes most of the epoch, or most of the difference to another candidate's.
    fn main(&self, other: Option<&Priced>) -> Main {
        let beyond =
            |main: Main| self.seconds(main).0 - other.map_or(0.0, |other| other.seconds(main).0);
        let mut largest = Main::ExposedCommunication;
        for main in [Main::Bubble, Main::Compute] {
            if beyond(main) > beyond(largest) {
                largest = main;
            }
        }
        largest
    }

    fn seconds(&self, main: Main) -> Seconds {
        let epoch = &self.estimate.epoch;
        match main {
            Main::ExposedCommunication => epoch.exposed_communication_seconds,
            Main::Bubble => epoch.bubble_seconds,
            Main::Compute => epoch.compute_seconds,
        }
    }

    pub(super) fn mostly(&self, other: Option<&Priced>) -> String {
        let main = self.main(other);
        let name = match main {
            Main::ExposedCommunication => "exposed communication",
            Main::Bubble => "bubble",
            Main::Compute => "compute",
        };
        let of = self.estimate.epoch.seconds;
        format!("{name} {} of {of}", self.seconds(main))
    }

    /// The reason for the difference to the best.
    fn why(&self, best: &Priced) -> String {
        match self.main(Some(best)) {
            Main::ExposedCommunication => {
                let (own, other) = (self.estimate.epoch.bytes.0, best.estimate.epoch.bytes.0);
                let (how, instead) = (self.how_sent(), best.how_sent());
                match (own, other) {
                    (0, _) => String::new(),
                    (_, 0) => format!("; sends {how}; the best sends nothing"),
                    (own, other) if own == other => {
                        let between = |p: &Priced| p.volume().halo_between;
                        match (between(self), between(best)) {
                            (own, other) if own == other => String::new(),
                            (own, other) => {
                                format!(
                                    "; of its halos {own} are between nodes, of the best's {other}"
                                )
                            }
                        }
                    }
                    _ => {
                        let times = own as f64 / other as f64;
                        format!("; sends {times:.2} times as much: {how}; the best sends {instead}")
                    }
                }
            }
            Main::Bubble if self.parts.edge_imbalance > 1.0 => {
                format!("; edge imbalance {:.2}", self.parts.edge_imbalance)
            }
            Main::Bubble => String::new(),
            Main::Compute => self.slower(best),
        }
    }

    /// What moves most of the bytes, in rows of the whole graph.
    fn how_sent(&self) -> String {
        let Volume {
            halo,
            halo_between: _,
            redistribute,
            all_reduce,
            fetch,
            halo_rows,
            redistribute_rows,
        } = self.volume();
        let mut ways = [
            (halo, format!("halos (replication factor {halo_rows:.2})")),
            (
                redistribute,
                format!("redistributions ({redistribute_rows:.2} of all rows each)"),
            ),
            (all_reduce, "weight gradients".to_owned()),
            (fetch, "rows that batches fetch".to_owned()),
        ];
        // Largest first; less than a tenth is no reason.
        ways.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let all = self.estimate.epoch.bytes.0;
        let told = ways.iter().filter(|(bytes, _)| bytes.0 > all / 10);
        let told: Vec<String> = told
            .map(|(bytes, how)| format!("{bytes} in {how}"))
            .collect();
        told.join(" and ")
    }

    /// The instruction that takes the most time beyond the best's.
    fn slower(&self, best: &Priced) -> String {
        let of = |p: &Priced, name: &str| {
            let kinds = p.estimate.epoch.breakdown.iter();
            let found = kinds.filter(|kind| kind.name == name);
            found.fold(0.0, |sum, kind| sum + kind.seconds.0)
        };
        let kinds = self.estimate.epoch.breakdown.iter();
        let beyond = kinds.map(|kind| (kind.seconds.0 - of(best, &kind.name), kind));
        match beyond.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.name.cmp(&a.1.name))) {
            Some((more, kind)) if more > 0.0 => {
                let other = match of(best, &kind.name) {
                    0.0 => "nothing".to_owned(),
                    seconds => Seconds(seconds).to_string(),
                };
                format!("; {} takes {} instead of {other}", kind.name, kind.seconds)
            }
            _ => String::new(),
        }
    }
}

fn rounded(seconds: Seconds) -> Seconds {
    Seconds(significant(seconds.0))
}
