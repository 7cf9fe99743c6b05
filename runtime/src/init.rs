//! Initial values of parameters.

use gnnc_ir::graph::{Init, ParamSpec};

/// Fills slot `slot` of a parameter, or of the rows of it that a rank has: those of a shard, or those of its
/// own vertices if these are given. Draws are keyed by seed, parameter name, slot and element of the whole
/// parameter, so they do not depend on other parameters or on ranks.
pub(crate) fn fill(
    spec: &ParamSpec,
    own: Option<&[u32]>,
    seed: u64,
    slot: u32,
    values: &mut [f32],
) {
    let columns = spec.ty.columns() as usize;
    let element = |n: usize| {
        let row = match (spec.shard, own) {
            (Some(shard), _) => shard.whole_row((n / columns) as u32)? as usize,
            (None, Some(rows)) => rows[n / columns] as usize,
            (None, None) => n / columns,
        };
        Some(row * columns + n % columns)
    };
    match spec.init {
        Init::Zeros => values.fill(0.0),
        Init::Ones => values.fill(1.0),
        Init::Constant(value) => values.fill(value),
        Init::Uniform(bound) => {
            let key = mix(mix(mix(seed) ^ name_hash(&spec.name)) ^ u64::from(slot));
            for (n, value) in values.iter_mut().enumerate() {
                let n = element(n).unwrap_or(0);
                *value = (f64::from(bound) * uniform(key, n as u64)) as f32;
            }
        }
    }
    if spec.shard.is_some() {
        for (n, value) in values.iter_mut().enumerate() {
            // The padding of a shard is 0 and stays 0.
            *value = element(n).map_or(0.0, |_| *value);
        }
    }
}

/// Draw `n` for a key, uniform in -1 to 1.
pub(crate) fn uniform(key: u64, n: u64) -> f64 {
    let bits = mix(key.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 11;
    bits as f64 * (2.0 / (1u64 << 53) as f64) - 1.0
}

/// One step of splitmix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// FNV-1a.
pub(crate) fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::Type;
    use gnnc_ir::graph::Shard;
    use gnnc_ir::graph::op::Slice;
    use gnnc_ir::kernel::Axis;

    fn filled(name: &str, seed: u64, slot: u32, init: Init) -> Vec<f32> {
        let spec = ParamSpec {
            name: name.to_owned(),
            ty: Type::matrix(100, 100),
            init,
            decay: None,
            shard: None,
            element: None,
        };
        let mut values = vec![9.0; 10_000];
        fill(&spec, None, seed, slot, &mut values);
        values
    }

    /// Two blocks of seven rows and three columns, over enough ranks to leave some without rows.
    #[test]
    fn ranks_start_with_their_rows_of_the_whole() {
        for init in [Init::Uniform(0.5), Init::Ones] {
            let whole = ParamSpec {
                name: "w".to_owned(),
                ty: Type::matrix(14, 3),
                init,
                decay: None,
                shard: None,
                element: None,
            };
            let mut expected = vec![9.0; 14 * 3];
            fill(&whole, None, 1, 2, &mut expected);
            for ranks in [2, 3, 4, 9] {
                let mut seen = 0;
                for rank in 0..ranks {
                    let slice = Slice::new(Axis::Width, 7, ranks, rank);
                    let own = whole.cut(Shard { blocks: 2, slice });
                    assert_eq!(own.whole(), whole.ty);
                    let rows = 2 * slice.len;
                    assert_eq!(own.ty, Type::matrix(rows, 3));
                    let mut found = vec![9.0; rows as usize * 3];
                    fill(&own, None, 1, 2, &mut found);
                    for (row, found) in (0..rows).zip(found.chunks(3)) {
                        match own.shard.and_then(|shard| shard.whole_row(row)) {
                            Some(at) => assert_eq!(found, &expected[at as usize * 3..][..3]),
                            None => assert_eq!(found, [0.0; 3]),
                        }
                        seen += own
                            .shard
                            .and_then(|shard| shard.whole_row(row))
                            .iter()
                            .count();
                    }
                }
                assert_eq!(seen, 14, "{ranks} ranks");
            }
        }
    }

    #[test]
    fn draws_are_uniform_and_keyed() {
        let a = filled("w", 1, 0, Init::Uniform(0.5));
        assert_eq!(a, filled("w", 1, 0, Init::Uniform(0.5)));
        assert!(a.iter().all(|x| x.abs() <= 0.5));
        let mean = a.iter().sum::<f32>() / 1e4;
        let variance = a.iter().map(|x| x * x).sum::<f32>() / 1e4;
        assert!(
            mean.abs() < 0.01 && (variance - 0.25 / 3.0).abs() < 0.003,
            "{mean} {variance}"
        );
        for b in [("v", 1, 0), ("w", 2, 0), ("w", 1, 1)] {
            let b = filled(b.0, b.1, b.2, Init::Uniform(0.5));
            let product: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum::<f32>() / 1e4;
            assert!(product.abs() < 0.003, "{product}");
        }
        assert!(filled("w", 1, 0, Init::Ones).iter().all(|&x| x == 1.0));
    }
}
