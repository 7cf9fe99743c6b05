//! Questions for edges that other ranks hold, and their answers, of the hop at hand.

use gnnc_graph::sample::Answers;

/// By rank: the vertices into which it draws edges for this one, and the edges that it drew.
#[derive(Default)]
pub(super) struct Hops {
    questions: Vec<Vec<u32>>,
    answers: Vec<Vec<u32>>,
    /// The answer to a question of another rank.
    to_other: Vec<u32>,
}

impl Hops {
    /// For so many ranks.
    pub(super) fn new(ranks: u32) -> Self {
        let none = || vec![Vec::new(); ranks as usize];
        Self {
            questions: none(),
            answers: none(),
            to_other: Vec::new(),
        }
    }

    /// Sorts the vertices of a level by their owners.
    pub(super) fn ask(&mut self, level: &[u32], owner: &[u32]) {
        self.questions.iter_mut().for_each(Vec::clear);
        for v in level {
            self.questions[owner[*v as usize] as usize].push(*v);
        }
    }

    /// What a rank is asked.
    pub(super) fn question(&self, rank: u32) -> &[u32] {
        self.questions.get(rank as usize).map_or(&[], |asked| asked)
    }

    /// Memory for an answer.
    pub(super) fn answer_memory(&mut self) -> &mut Vec<u32> {
        self.to_other.clear();
        &mut self.to_other
    }

    /// The answer that was written last.
    pub(super) fn own_answer(&self) -> &[u32] {
        &self.to_other
    }

    /// Keeps what a rank answered.
    pub(super) fn answered(&mut self, rank: u32, answer: &[u32]) {
        if let Some(kept) = self.answers.get_mut(rank as usize) {
            kept.clear();
            kept.extend_from_slice(answer);
        }
    }

    /// What all ranks answered to one of them.
    pub(super) fn answers<'a>(&'a self, rank: u32, owner: &'a [u32]) -> Answers<'a> {
        Answers {
            rank,
            owner,
            by_rank: &self.answers,
        }
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let lists = self.questions.iter().chain(&self.answers);
        4 * (lists.map(Vec::len).sum::<usize>() + self.to_other.len()) as u64
    }
}
