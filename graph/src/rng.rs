//! Random numbers as a function of a key and a counter, so that results do not depend on which
//! thread draws when.

/// A stream of random numbers, each addressed by its counter (SplitMix64, Steele et al.,
/// OOPSLA 2014).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// The stream for a seed and a purpose. Streams for different purposes are unrelated.
    pub fn new(seed: u64, purpose: u64) -> Self {
        Self(mix(mix(seed).wrapping_add(purpose.wrapping_mul(GOLDEN))))
    }

    /// 64 random bits.
    pub fn bits(self, counter: u64) -> u64 {
        mix(self
            .0
            .wrapping_add(counter.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// A number below `limit`, which must not be 0, computed from random bits.
    pub fn below(bits: u64, limit: u64) -> u64 {
        ((u128::from(bits) * u128::from(limit)) >> 64) as u64
    }

    /// A number with mean 0 and variance 1, close to normally distributed: the sum of four uniform
    /// numbers. It avoids transcendental functions, whose last bits differ between machines.
    pub fn normal(self, counter: u64) -> f32 {
        let bits = self.bits(counter);
        let sum: i32 = (0..4).map(|i| i32::from((bits >> (16 * i)) as u16)).sum();
        // Four uniform 16-bit numbers have mean 2 * 65535 and variance 4 * (65536^2 - 1) / 12.
        (sum - 2 * 65535) as f32 * (1.732_050_8 / 65536.0)
    }

    /// A random order of `0..n`.
    pub fn permutation(self, n: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..n).collect();
        for i in (1..n as usize).rev() {
            order.swap(i, Self::below(self.bits(i as u64), i as u64 + 1) as usize);
        }
        order
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_are_those_of_splitmix64() {
        let stream = Stream(1234567);
        assert_eq!(stream.bits(0), 6457827717110365317);
        assert_eq!(stream.bits(1), 3203168211198807973);
    }

    #[test]
    fn normal_numbers_have_their_moments() {
        let stream = Stream::new(1, 2);
        let x: Vec<f64> = (0..100_000).map(|i| f64::from(stream.normal(i))).collect();
        let mean = x.iter().sum::<f64>() / 1e5;
        let variance = x.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(
            mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02,
            "{mean} {variance}"
        );
    }

    #[test]
    fn a_permutation_has_every_number() {
        let mut order = Stream::new(3, 0).permutation(100);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert!(order.into_iter().eq(0..100));
    }
}
