//! Checks of storage formats.

use super::{Check, Checked};
use crate::program::{Ref, Role};
use crate::words::storage::Storage;

/// Whether a buffer of this role must hold 32-bit floats.
pub(super) fn always_floats(role: Role) -> bool {
    match role {
        Role::FeatureValues
        | Role::Degree(..)
        | Role::EdgeEnds(_)
        | Role::EdgePlaces(_)
        | Role::Relation(_)
        | Role::RelationDegree(_)
        | Role::EdgeFeatures(_)
        | Role::Table(_)
        | Role::Param(_)
        | Role::State(..)
        | Role::Result => true,
        Role::Features | Role::Static | Role::History(_) | Role::Temp => false,
    }
}

impl Check<'_> {
    /// Checks that a tensor has the expected storage format.
    pub(super) fn stored_as(&self, what: &str, at: Ref, expected: Storage) -> Checked {
        let buffer = self.program.buffer(at.buffer);
        match buffer.storage == expected {
            true => Ok(()),
            false => Err(format!(
                "{what} is `{}` in {}, expected {expected}",
                buffer.name, buffer.storage
            )),
        }
    }

    /// Checks that a tensor holds 32-bit floats.
    pub(in crate::program) fn floats(&self, what: &str, at: Ref) -> Checked {
        self.stored_as(what, at, Storage::F32)
    }

    /// Checks that the rows of a tensor can be moved: they are whole words.
    pub(in crate::program) fn moved_rows(&self, what: &str, at: Ref) -> Checked {
        self.in_words(what, at, &[self.program.buffer(at.buffer).columns])
    }

    /// Checks that numbers of elements of a tensor are whole four-byte words.
    pub(in crate::program) fn in_words(&self, what: &str, at: Ref, elements: &[u32]) -> Checked {
        let buffer = self.program.buffer(at.buffer);
        let in_word = buffer.storage.in_word();
        let odd = elements.iter().find(|n| !n.is_multiple_of(in_word));
        odd.map_or(Ok(()), |n| {
            Err(format!(
                "{what} moves {n} elements of `{}` in {}, expected an even number",
                buffer.name, buffer.storage
            ))
        })
    }

    /// Checks the storage of a product's factors and result.
    pub(super) fn factors(&self, [a, b, out]: [Ref; 3]) -> Checked {
        let storage = |at: Ref| self.program.buffer(at.buffer).storage;
        self.stored_as("b", b, storage(a))?;
        match storage(out) {
            Storage::F32 => Ok(()),
            found => self.stored_as("a, as the result,", a, found),
        }
    }
}
