//! Typed quantities, so that seconds are never added to bytes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $repr:ty, $($order:ident),+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, $($order),+)]
        #[serde(transparent)]
        pub struct $name(pub $repr);

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<$repr> for $name {
            type Output = Self;
            fn mul(self, by: $repr) -> Self {
                Self(self.0 * by)
            }
        }
        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::default(), Add::add)
            }
        }
    };
}

quantity!(
    /// A count of bytes.
    Bytes, u64, PartialEq, Eq, PartialOrd, Ord
);
quantity!(
    /// A duration in seconds.
    Seconds, f64, PartialEq, PartialOrd
);
quantity!(
    /// A count of floating-point operations (a fused multiply-add counts two).
    Flops, f64, PartialEq, PartialOrd
);

impl Seconds {
    /// Whether it is no time at all.
    pub fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        for (unit, size) in [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
            if self.0 >= size {
                return f.pad(&format!("{:.2} {unit}", bytes / size as f64));
            }
        }
        f.pad(&format!("{} B", self.0))
    }
}

impl FromStr for Bytes {
    type Err = String;

    /// Parses a number of bytes above 0, with a binary unit or without; the error says what was
    /// expected.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "expected a number above 0 with a unit or without, such as 8GiB, 512MiB, 100KiB or 4096"
                .to_owned()
        };
        let units = [
            ("TiB", 1u64 << 40),
            ("GiB", 1 << 30),
            ("MiB", 1 << 20),
            ("KiB", 1 << 10),
            ("B", 1),
            ("", 1),
        ];
        let cut = |(unit, size)| Some((text.strip_suffix(unit)?, size));
        let (number, size): (&str, u64) = units.into_iter().find_map(cut).ok_or_else(wrong)?;
        let number: f64 = number
            .trim()
            .replace('_', "")
            .parse()
            .map_err(|_| wrong())?;
        let bytes = number * size as f64;
        match bytes.is_finite() && bytes >= 1.0 {
            true => Ok(Self(bytes as u64)),
            false => Err(wrong()),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            s if s >= 1.0 => format!("{s:.2} s"),
            s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
            s => format!("{:.1} us", s * 1e6),
        };
        f.pad(&text)
    }
}

/// Six significant digits: the last bits of logarithms differ between machines, but plans must not.
pub fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_print_in_their_unit() {
        assert_eq!(Bytes(1536).to_string(), "1.50 KiB");
        assert_eq!(Bytes(12).to_string(), "12 B");
        assert_eq!(Seconds(0.0125).to_string(), "12.50 ms");
    }
}
