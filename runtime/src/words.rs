//! Bytes in messages of floats.

/// Bytes as floats with the same bits, the last ones filled up with zeros.
pub(crate) fn words(bytes: &[u8]) -> Vec<f32> {
    let word = |four: &[u8]| {
        let mut all = [0; 4];
        all[..four.len()].copy_from_slice(four);
        f32::from_bits(u32::from_le_bytes(all))
    };
    bytes.chunks(4).map(word).collect()
}

/// The first `length` bytes of some floats.
pub(crate) fn bytes(words: &[f32], length: usize) -> Vec<u8> {
    let all = words.iter().flat_map(|word| word.to_bits().to_le_bytes());
    all.take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again() {
        for length in 0..9u8 {
            let own: Vec<u8> = (0..length).map(|n| 250 - n).collect();
            let sent = words(&own);
            assert_eq!(sent.len(), usize::from(length).div_ceil(4));
            assert_eq!(bytes(&sent, own.len()), own);
        }
    }
}
