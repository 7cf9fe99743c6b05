//! Hashes of graphs and partitions: processes verify with them that they work on the same data, and caches find
//! results by them.

use crate::partition::PartitionInput;
use crate::{Features, GraphData, Labels, Partition, Topology};

/// Bytes hashed at a time.
const BLOCK: usize = 1 << 16;

impl GraphData {
    /// A hash of everything but the name: equal graphs have equal hashes.
    pub fn fingerprint(&self) -> String {
        let mut hash = blake3::Hasher::new();
        let topology = &self.topology;
        add(&mut hash, topology.indptr(), |x| x.to_le_bytes());
        add(&mut hash, topology.indices(), |x| x.to_le_bytes());
        add(&mut hash, topology.types(), |x| x.to_le_bytes());
        add(&mut hash, topology.places_on_curve(), |x| x.to_le_bytes());
        for name in topology.set_names() {
            add(&mut hash, name.as_bytes(), |x| [x]);
        }
        match &self.features {
            Features::None => {}
            Features::Dense {
                columns, values, ..
            } => {
                add(&mut hash, &[*columns], |x| x.to_le_bytes());
                add(&mut hash, values.as_slice(), |x| x.to_le_bytes());
            }
            Features::Sparse {
                columns,
                indptr,
                indices,
                values,
            } => {
                add(&mut hash, &[*columns], |x| x.to_le_bytes());
                add(&mut hash, indptr, |x| x.to_le_bytes());
                add(&mut hash, indices, |x| x.to_le_bytes());
                add(&mut hash, values, |x| x.to_le_bytes());
            }
        }
        if self.edge_features.columns > 0 {
            add(&mut hash, &self.edge_features.values, |x| x.to_le_bytes());
        }
        match &self.labels {
            Labels::None => {}
            Labels::Single(classes) => add(&mut hash, classes, |x| x.to_le_bytes()),
            Labels::Values { width, values } => {
                add(&mut hash, &[*width], |x| x.to_le_bytes());
                add(&mut hash, values, |x| x.to_le_bytes());
            }
        }
        for mask in [&self.train, &self.val, &self.test] {
            add(&mut hash, mask, |x| [u8::from(x)]);
        }
        short(&hash)
    }
}

impl Topology {
    /// A hash of 256 bits of the edges, in hexadecimal; types are left out.
    pub fn digest(&self) -> String {
        let mut hash = blake3::Hasher::new();
        add(&mut hash, self.indptr(), |x| x.to_le_bytes());
        add(&mut hash, self.indices(), |x| x.to_le_bytes());
        hash.finalize().to_hex().to_string()
    }
}

impl PartitionInput<'_> {
    /// A hash of 256 bits of the split and of the vertices' types, in hexadecimal.
    pub fn digest_of_vertices(self) -> String {
        let mut hash = blake3::Hasher::new();
        for split in self.splits() {
            add(&mut hash, split, |x| [u8::from(x)]);
        }
        add(&mut hash, &self.vertex_types(), |kind| {
            kind.map_or(u32::MAX, u32::from).to_le_bytes()
        });
        hash.finalize().to_hex().to_string()
    }
}

impl Partition {
    /// A hash of which vertex belongs to which part.
    pub fn fingerprint(&self) -> String {
        short(&self.hash())
    }

    /// [`Partition::fingerprint`] with all its 256 bits, in hexadecimal.
    pub fn digest(&self) -> String {
        self.hash().finalize().to_hex().to_string()
    }

    fn hash(&self) -> blake3::Hasher {
        let mut hash = blake3::Hasher::new();
        add(&mut hash, &[self.parts()], |x| x.to_le_bytes());
        add(&mut hash, self.owner(), |x| x.to_le_bytes());
        hash
    }
}

/// Hashes the number of values, then the values.
fn add<T: Copy, const N: usize>(
    hash: &mut blake3::Hasher,
    values: &[T],
    bytes_of: impl Fn(T) -> [u8; N],
) {
    hash.update(&(values.len() as u64).to_le_bytes());
    let mut bytes = Vec::with_capacity(BLOCK);
    for block in values.chunks(BLOCK / N) {
        bytes.clear();
        bytes.extend(block.iter().flat_map(|value| bytes_of(*value)));
        hash.update(&bytes);
    }
}

/// The first 64 bits: enough to notice accidental differences.
fn short(hash: &blake3::Hasher) -> String {
    hash.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use crate::{GraphData, Partition, Topology};

    #[test]
    fn whatever_differs_is_told_apart() {
        let graph = |edges: &[(u32, u32)]| {
            let (topology, _) = Topology::from_edges(4, edges.iter().copied()).unwrap();
            GraphData::new("g", topology)
        };
        let one = graph(&[(0, 1), (2, 3)]);
        let mut renamed = one.clone();
        renamed.name = "h".to_owned();
        assert_eq!(one.fingerprint(), renamed.fingerprint());
        assert_ne!(one.fingerprint(), graph(&[(0, 1), (3, 2)]).fingerprint());
        let mut masked = one.clone();
        masked.train[0] = !masked.train[0];
        assert_ne!(one.fingerprint(), masked.fingerprint());
        let edges = |edges: &[(u32, u32)]| graph(edges).topology.digest();
        assert_eq!(edges(&[(0, 1), (2, 3)]), one.topology.digest());
        assert_ne!(edges(&[(0, 1), (2, 3)]), edges(&[(1, 0), (2, 3)]));
        let part = |owner: &[u32]| Partition::new(2, owner.to_vec()).unwrap().fingerprint();
        assert_eq!(part(&[0, 0, 1, 1]), part(&[0, 0, 1, 1]));
        assert_ne!(part(&[0, 0, 1, 1]), part(&[0, 1, 0, 1]));
    }
}
