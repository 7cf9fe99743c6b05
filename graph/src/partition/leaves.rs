//! Parts made of leaves, for sums whose order does not depend on the number of parts.

use super::Partition;
use crate::GraphError;
use gnnc_ir::program::leaves::owner;

impl Partition {
    /// The partition whose parts own runs of these parts, the leaves. Chunk `k` of the graph is leaf `k`, so each part has
    /// chunks without vertices for the leaves of others.
    ///
    /// # Errors
    /// No parts, or more parts than leaves.
    pub fn of_leaves(leaves: &Self, parts: u32) -> Result<Self, GraphError> {
        let (count, leaf) = (leaves.parts, leaves.owner.clone());
        if parts > count {
            return Err(GraphError::Unsupported {
                at: "equal bits".to_owned(),
                found: format!("{parts} parts"),
                expected: format!("at most {count}, the leaves that the graph is divided into"),
            });
        }
        let of = |leaf: &u32| owner(count, parts, *leaf);
        let owners = leaf.iter().map(of).collect();
        Self::new(parts, owners)?.with_chunks(count, leaf)
    }

    /// Whether parts own runs of chunks as those that are made of leaves do.
    pub fn owns_runs(&self) -> bool {
        let owners = (0u32..).zip(&self.owner);
        owners
            .into_iter()
            .all(|(v, part)| owner(self.chunks, self.parts, self.chunk_of(v)) == *part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_own_runs_of_leaves() {
        let leaves = Partition::new(4, vec![3, 0, 1, 2, 1]).unwrap();
        let parts = |parts| Partition::of_leaves(&leaves, parts).unwrap();
        assert_eq!(parts(1).owner(), [0, 0, 0, 0, 0]);
        assert_eq!(parts(2).owner(), [1, 0, 0, 1, 0]);
        // One leaf, one leaf, and two leaves.
        assert_eq!(parts(3).owner(), [2, 0, 1, 2, 1]);
        assert_eq!(parts(3).chunk_of(0), 3);
        assert!(parts(3).owns_runs() && parts(1).owns_runs());
        let other = Partition::new(2, vec![0, 1, 1, 0, 0]).unwrap();
        assert!(
            !other
                .with_chunks(4, vec![3, 0, 1, 2, 1])
                .unwrap()
                .owns_runs()
        );
        assert!(Partition::of_leaves(&leaves, 5).is_err());
    }
}
