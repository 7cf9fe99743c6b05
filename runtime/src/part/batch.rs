//! The sampled batch at hand: its vertices, and the edges between its levels as kernels walk them.

mod apart;

use super::Edges;
use super::apart::Hops;
use super::asked::Asked;
use super::drawing::{Drawing, OfRun, Read};
use super::needs::BatchNeeds;
use super::numbers::NumbersOf;
use super::sampled::{OfList, Sampled};
use super::under_way::UnderWay;
use super::walks::{LayerWays, Listed};
use crate::RuntimeError;
use crate::fault::Fault;
use gnnc_graph::Labels;
use gnnc_graph::sample::{
    At, Blocks, Cached, Copies, Gathered, fetched_again, message_length, room, write_message,
};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::instr::ShareLevels;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BatchSizes, Group};
use gnnc_ir::words::sampling::{Drawn, Sampling};
use gnnc_ir::words::types::{Level, Of};
use std::sync::Arc;

/// A rank's batches, of the lists that sample.
#[derive(Default)]
pub(crate) struct BatchesByList {
    training: Option<Box<Batch>>,
    evaluation: Option<Box<Batch>>,
    /// Whether evaluations are at hand.
    evaluates: bool,
}

/// Identifies a batch whose lists are kept: to train or to evaluate on, its place among those under way, and its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot {
    evaluates: bool,
    under_way: usize,
    set: usize,
}

impl BatchesByList {
    /// The batch at hand, and a number that changes with its lists.
    pub(crate) fn slot_at_hand(&self) -> Option<(Slot, u64)> {
        let batch = self.at_hand()?;
        let slot = Slot {
            evaluates: self.evaluates,
            under_way: batch.at_hand,
            set: batch.set,
        };
        Some((slot, batch.at_hand().version))
    }

    /// Adds those of a list.
    pub(crate) fn add(&mut self, phase: Phase, batch: Batch) {
        *self.slot(phase == Phase::Eval) = Some(Box::new(batch));
    }

    /// Goes on with those of a list.
    pub(crate) fn enter(&mut self, phase: Phase) {
        self.evaluates = phase == Phase::Eval;
    }

    /// Those of a list, if it samples.
    pub(crate) fn of(&self, phase: Phase) -> Option<&Batch> {
        match phase {
            Phase::Setup | Phase::Step => self.training.as_deref(),
            Phase::Eval => self.evaluation.as_deref(),
        }
    }

    /// Those of the list at hand.
    pub(crate) fn at_hand(&self) -> Option<&Batch> {
        match self.evaluates {
            false => self.training.as_deref(),
            true => self.evaluation.as_deref(),
        }
    }

    /// The same, to draw the next one.
    pub(crate) fn at_hand_mut(&mut self) -> Option<&mut Batch> {
        self.slot(self.evaluates).as_deref_mut()
    }

    fn slot(&mut self, evaluates: bool) -> &mut Option<Box<Batch>> {
        match evaluates {
            false => &mut self.training,
            true => &mut self.evaluation,
        }
    }

    /// Those of all lists.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Batch> {
        [&self.training, &self.evaluation]
            .into_iter()
            .filter_map(|one| one.as_deref())
    }

    /// Goes on with the batches of another run.
    pub(crate) fn reseed(&mut self, seed: u64) {
        let all = [&mut self.training, &mut self.evaluation];
        all.into_iter()
            .flatten()
            .for_each(|batch| batch.reseed(seed));
    }
}

/// The batches of a list, and a rank's part of those under way.
pub(crate) struct Batch {
    shared: Arc<Sampled>,
    rank: u32,
    drawing: Drawing,
    /// Questions for edges and their answers, if ranks hold their own edges only.
    hops: Hops,
    /// How the batches are drawn.
    sampling: Sampling,
    /// Rows of other ranks that the rank keeps.
    cached: Option<Arc<Cached>>,
    /// The age of copies by rank: the rank's own copies, and those that others have of its rows.
    copies: Vec<Copies>,
    /// How the edges of all ranks' parts are walked.
    ways_of_all: LayerWays,
    /// The levels that ranks have of each other.
    shares: Option<ShareLevels>,
    /// Batches under way; number `n` of an epoch is at `n` modulo their count.
    under_way: Vec<UnderWay>,
    /// Index of the one at hand.
    at_hand: usize,
    /// For each own row, its place among those that any rank asks for; empty if these are not listed.
    place_of: Vec<u32>,
    /// Index of its set at hand.
    set: usize,
    /// The sizes of each batch of the epoch so far.
    pub(crate) drawn: Vec<BatchSizes>,
    /// How often a batch was larger than the memory laid out for it.
    pub(crate) grown: u32,
    /// Changes of lists so far.
    versions: u64,
}

impl Batch {
    /// The batches of a program's list on a rank.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub(crate) fn new(
        shared: &Arc<Sampled>,
        of: OfList,
        needs: BatchNeeds,
        of_run: OfRun,
    ) -> Result<Self, RuntimeError> {
        let cached = shared.cache(of_run.rank).map(Arc::clone);
        let BatchNeeds {
            layers,
            shares,
            asks,
            pushes,
            lag,
            numbers,
        } = needs;
        let read = Read {
            ways: layers.own,
            asks,
            numbers,
        };
        Ok(Self {
            drawing: Drawing::new(shared, of, &read, cached.as_ref(), of_run)?,
            rank: of_run.rank,
            hops: Hops::new(shared.owners.partition.parts()),
            sampling: of.sampling.clone(),
            copies: shared.copies(of.sampling, of_run.rank, of_run.own),
            shared: Arc::clone(shared),
            cached,
            under_way: (0..=lag).map(|_| UnderWay::default()).collect(),
            at_hand: 0,
            set: 0,
            place_of: vec![0; if pushes { of_run.own } else { 0 }],
            ways_of_all: layers.all,
            shares,
            drawn: Vec::new(),
            grown: 0,
            versions: 0,
        })
    }

    /// Goes on with the batches of another run.
    fn reseed(&mut self, seed: u64) {
        self.drawing.reseed(seed);
    }

    /// Batches of an epoch.
    pub(crate) fn count(&self) -> u32 {
        self.drawing.count()
    }

    /// A little more than the sizes of a batch, but no more than there can be.
    pub(crate) fn room(&self, sizes: BatchSizes) -> BatchSizes {
        room(sizes, self.shared.vertices(), self.shared.all_edges)
    }

    /// Draws a batch, and returns its sizes; `None` if hops are left for which other ranks hold edges.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(crate) fn draw(&mut self, at: At) -> Result<Option<BatchSizes>, Fault> {
        self.at_hand = at.batch as usize % self.under_way.len();
        self.set = 0;
        if at.batch == 0 {
            self.drawn.clear();
        }
        let batch = &mut self.under_way[self.at_hand];
        let whole = self.drawing.draw(at, batch)?;
        self.change();
        Ok(whole.then(|| self.counted()))
    }

    /// Lists of the batch at hand have changed.
    fn change(&mut self) {
        self.versions += 1;
        self.under_way[self.at_hand].version = self.versions;
    }

    /// Counts a batch that was drawn, and returns its sizes.
    fn counted(&mut self) -> BatchSizes {
        let sizes = self.at_hand().sizes;
        self.drawn.push(sizes);
        sizes
    }

    /// Sorts the vertices whose rows the rank keeps by their owners, to ask for all of them.
    pub(crate) fn ask_for_cache(&mut self) {
        self.change();
        if let Some(cached) = &self.cached {
            let asked = &mut self.under_way[self.at_hand].asked;
            asked.sort(self.rank, cached.ids(), &self.shared.owners, None);
        }
    }

    /// Goes on with a set of the batch at hand; its sizes, if there is one.
    pub(crate) fn go_to_set(&mut self, number: u32) -> Option<BatchSizes> {
        self.set = number as usize;
        let set = self.at_hand().drawn.sets.get(self.set)?;
        Some(set.sizes)
    }

    /// Ranks that the model of the set at hand goes on by; `None` after its last set.
    pub(crate) fn distance(&self) -> Option<u32> {
        self.at_hand().distances.get(self.set).copied().flatten()
    }

    /// The vertices of all sets of the batch at hand.
    fn gathered(&self) -> &Gathered {
        &self.at_hand().drawn.gathered
    }

    /// For each vertex of the set at hand, its row among those of all sets.
    pub(crate) fn places_in_sets(&self) -> &[u32] {
        self.gathered().places(self.set)
    }

    /// Numbers of the message that gives other ranks the lower levels of the batch at hand.
    pub(crate) fn message_length(&self) -> usize {
        let batch = self.at_hand();
        match self.shares {
            Some(share) if batch.blocks(0).layers() > 0 => {
                message_length(batch.blocks(0), share.level, share.places)
            }
            _ => 0,
        }
    }

    /// Writes that message.
    pub(crate) fn write_message(&self, out: &mut [u32]) {
        if let Some(share) = self.shares {
            write_message(self.at_hand().blocks(0), share.level, share.places, out);
        }
    }

    /// Makes room for the message about the batch at hand of one of the ranks that share levels.
    pub(crate) fn message_of(&mut self, group: Group, place: u32, length: usize) -> &mut [u32] {
        let batch = &mut self.under_way[self.at_hand];
        batch.all.message(place, group.ranks, length)
    }

    /// Puts the messages of all ranks side by side, and returns the sizes of the batch at hand.
    ///
    /// # Errors
    /// A message that is none.
    pub(crate) fn merge(&mut self) -> Result<BatchSizes, Fault> {
        self.change();
        let Some(share) = self.shares else {
            return Err(Fault::Missing("levels to share"));
        };
        let batch = &mut self.under_way[self.at_hand];
        let (edges, set_into) = (&self.shared.edges, |level| self.sampling.set_into(level));
        let left_out = batch.drawn.left_out();
        let merged = (batch.all).merge(share.level, share.places, edges, &set_into, left_out);
        if !merged {
            return Err(Fault::Missing("the levels that another rank shares"));
        }
        let blocks = batch.all.blocks();
        let listed = Listed {
            edges,
            sampling: &self.sampling,
        };
        listed.list(blocks, &self.ways_of_all, &mut batch.all_layers);
        let merged = blocks.batch_sizes();
        batch.sizes.all_levels = merged.levels;
        batch.sizes.all_edges = merged.edges;
        Ok(batch.sizes)
    }

    /// The rows of a level of all ranks that are a rank's part.
    pub(crate) fn rows_of(&self, level: u8) -> &[Vec<u32>] {
        self.at_hand().all.rows_by_rank(level)
    }

    /// Goes on with a batch of the epoch; its sizes, if it was drawn.
    pub(crate) fn go_to(&mut self, number: u32) -> Option<BatchSizes> {
        let place = number as usize % self.under_way.len();
        let batch = &self.under_way[place];
        let drawn = batch.number == number && batch.blocks(0).layers() > 0;
        drawn.then(|| {
            (self.at_hand, self.set) = (place, 0);
            batch.sizes
        })
    }

    fn at_hand(&self) -> &UnderWay {
        &self.under_way[self.at_hand]
    }

    /// The levels of the set at hand, or of all ranks' parts of the batch.
    fn blocks(&self, of: Of) -> &Blocks {
        match of {
            Of::One | Of::Sets | Of::Owned => self.at_hand().blocks(self.set),
            Of::All => self.at_hand().all.blocks(),
        }
    }

    /// Vertices of the batch, or of all ranks' parts of it; those of a level are the first ones.
    pub(crate) fn ids(&self, of: Of) -> &[u32] {
        self.blocks(of).ids()
    }

    /// The edges into a level.
    pub(crate) fn edges(&self, layer: Level, set: EdgeSet) -> Option<&Edges> {
        let layers = match layer.of {
            Of::One => self.at_hand().layers.get(self.set)?,
            Of::All => &self.at_hand().all_layers,
            Of::Sets | Of::Owned => return None,
        };
        let number = usize::from(layer.number).checked_sub(1)?;
        layers.get(number)?.of(set).as_ref()
    }

    /// Rows of the batch by owner.
    pub(crate) fn asked(&self) -> &Asked {
        &self.at_hand().asked
    }

    /// Decides which copies of others' rows are too old for the batch at hand, before it asks for its rows.
    pub(crate) fn renew(&mut self) {
        let UnderWay {
            number,
            drawn,
            asked,
            sizes,
            ..
        } = &mut self.under_way[self.at_hand];
        let (Some(copies), Some(asks), Some(set)) = (
            self.copies.get_mut(self.rank as usize),
            self.drawing.asks(),
            drawn.sets.first(),
        ) else {
            return;
        };
        copies.begin(*number);
        let (level, owners) = (set.blocks.level(asks.number.into()), &self.shared.owners);
        for place in asked.renew(level, owners, copies, *number) {
            fetched_again(*place as usize, sizes);
        }
        if let Some(counted) = self.drawn.get_mut(*number as usize) {
            *counted = *sizes;
        }
        self.change();
    }

    /// Lists the own rows of a rank that another one asks for; whether it owns all of these vertices.
    pub(crate) fn serve(&mut self, rank: u32, other: u32, vertices: &[u32]) -> bool {
        self.change();
        let UnderWay { asked, number, .. } = &mut self.under_way[self.at_hand];
        let copies = self.copies.get_mut(other as usize);
        let copies = self.shared.cache(other).zip(copies).map(|(kept, copies)| {
            copies.begin(*number);
            (&**kept, copies)
        });
        asked.serve(
            (rank, other),
            vertices,
            &self.shared.owners,
            copies,
            *number,
        )
    }

    /// Lists the own rows that any rank asked for, if they are pushed to, and returns the sizes of the
    /// batch at hand.
    pub(crate) fn gather(&mut self, rank: u32) -> Option<BatchSizes> {
        self.change();
        if self.place_of.is_empty() {
            return None;
        }
        let batch = &mut self.under_way[self.at_hand];
        batch.sizes.owned = batch.asked.gather(rank, &mut self.place_of) as u64;
        Some(batch.sizes)
    }

    /// Seeds of the batch, on all ranks.
    pub(crate) fn seeds(&self) -> u32 {
        self.at_hand().seeds
    }

    /// The weight of these seeds in the mean of their losses.
    pub(crate) fn weight(&self) -> f64 {
        self.at_hand().weight
    }

    /// The part of the epoch's seeds that the batch has.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.seeds()) / f64::from(self.at_hand().of_epoch.max(1))
    }

    /// Labels of all vertices, unless the only rank has them.
    pub(crate) fn labels(&self) -> Option<&Labels> {
        (self.shared.owners.partition.parts() > 1).then_some(&self.shared.labels)
    }

    /// The training, validation and test vertices among all, unless the only rank has them.
    pub(crate) fn splits(&self) -> Option<&[Vec<bool>; 3]> {
        (self.shared.owners.partition.parts() > 1).then_some(&self.shared.splits)
    }

    /// Size in bytes of what all ranks of a process share.
    pub(crate) fn shared_bytes(&self) -> u64 {
        self.shared.bytes()
    }

    /// Numbers of the batch, if a thread that drew it has made them.
    pub(crate) fn made(&self, drawn: Drawn) -> Option<&[f32]> {
        match drawn.level().of {
            Of::All => None,
            Of::One | Of::Sets | Of::Owned => {
                let numbers = self.at_hand().numbers.get(self.set)?.get(&drawn);
                numbers.map(Vec::as_slice)
            }
        }
    }

    /// Writes numbers of the batch, one a row.
    pub(crate) fn write(&self, drawn: Drawn, out: &mut [f32]) {
        if let Some(made) = self.made(drawn) {
            out.copy_from_slice(made);
            return;
        }
        let numbers = NumbersOf {
            shared: &self.shared,
            blocks: self.blocks(drawn.level().of),
            left_out: self.at_hand().drawn.left_out(),
        };
        numbers.write(drawn, out);
    }

    /// Size in bytes, without what ranks share.
    pub(crate) fn bytes(&self) -> u64 {
        let under_way = self.under_way.iter().map(UnderWay::bytes).sum::<u64>();
        let copies = self.copies.iter().map(Copies::bytes).sum::<u64>();
        under_way + copies + self.hops.bytes() + self.drawing.bytes(4 * self.shared.vertices())
    }
}
