//! Conversions beside the definitions of the formats.

use super::*;

/// All formats of 16 bits.
fn halves() -> impl Iterator<Item = Storage> {
    let all = Storage::ALL.iter().copied();
    all.filter(|storage| !storage.is_f32())
}

/// Value of the bits by the definition of the format: sign, exponent, fraction.
fn defined(storage: Storage, bits: u16) -> f64 {
    let layout = storage.layout().unwrap();
    let fraction_bits = layout.mantissa_bits() as i32;
    let bias = (1 << (layout.exponent_bits() - 1)) - 1;
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let top = (1 << (15 - fraction_bits)) - 1;
    let exponent = i32::from(bits >> fraction_bits) & top;
    let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / 2f64.powi(fraction_bits);
    sign * match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        e if e == top && fraction > 0.0 => f64::NAN,
        e if e == top => f64::INFINITY,
        e => (1.0 + fraction) * 2f64.powi(e - bias),
    }
}

#[test]
fn every_number_of_16_bits_is_read_and_written_as_it_is_defined() {
    for storage in halves() {
        for bits in 0..=u16::MAX {
            let (found, expected) = (storage.decode(bits), defined(storage, bits));
            if expected.is_nan() {
                assert!(found.is_nan() && storage.round(found).is_nan(), "{bits:#x}");
                continue;
            }
            assert_eq!(f64::from(found), expected, "{storage} {bits:#x}");
            assert_eq!(storage.encode(found), bits, "{storage} {bits:#x}");
        }
    }
}

#[test]
fn numbers_in_between_go_to_the_nearest_ties_to_the_even_one() {
    for storage in halves() {
        for bits in 0..0x7bffu16 {
            let (low, high) = (storage.decode(bits), storage.decode(bits + 1));
            if !high.is_finite() {
                continue;
            }
            let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
            let even = if bits % 2 == 0 { bits } else { bits + 1 };
            for sign in [1.0, -1.0] {
                let found = |x: f32| storage.encode(sign * x) & 0x7fff;
                assert_eq!(found(middle), even, "{storage} {bits:#x}");
                assert_eq!(found(middle.next_down()), bits, "{storage} {bits:#x}");
                assert_eq!(found(middle.next_up()), bits + 1, "{storage} {bits:#x}");
            }
        }
    }
}

#[test]
fn roundoff_is_the_largest_relative_error() {
    for storage in halves() {
        let error = |n: u32| {
            let x = f64::from(n) / 65536.0 + 1.0;
            (f64::from(storage.round(x as f32)) - x).abs() / x
        };
        let largest = (0..65536).map(error).fold(0.0, f64::max);
        assert!(largest <= storage.roundoff() && largest > 0.98 * storage.roundoff());
    }
}

#[test]
fn what_is_too_large_is_infinite() {
    assert_eq!(Storage::F16.round(65519.9), 65504.0);
    assert_eq!(Storage::F16.round(65520.0), f32::INFINITY);
    assert_eq!(Storage::F16.round(-1e9), f32::NEG_INFINITY);
    assert_eq!(Storage::Bf16.round(f32::MAX), f32::INFINITY);
    assert_eq!(Storage::Bf16.round(3.3895e38), 3.389_531_4e38);
    for storage in halves() {
        assert_eq!(storage.round(f32::NEG_INFINITY), f32::NEG_INFINITY);
        for bits in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001u32] {
            assert!(storage.round(f32::from_bits(bits)).is_nan());
        }
    }
    assert_eq!(Storage::F16.round(2f32.powi(-25)), 0.0);
    assert_eq!(Storage::F16.round(2f32.powi(-25).next_up()), 2f32.powi(-24));
}

#[test]
fn an_odd_number_of_elements_fills_its_last_word_with_zeros() {
    let numbers = [1.0, -2.5, 3.0];
    for storage in halves() {
        let (mut words, mut back) = ([7.0; 2], [0.0; 3]);
        storage.pack(&numbers, &mut words);
        assert_eq!(words[1].to_bits() >> 16, 0);
        storage.unpack(&words, &mut back);
        assert_eq!(back, numbers);
        let again = words;
        storage.add(&mut words, &again);
        storage.unpack(&words, &mut back);
        assert_eq!(back, [2.0, -5.0, 6.0]);
    }
}
