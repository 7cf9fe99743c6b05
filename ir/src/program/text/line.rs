//! Text form of launches and matrices.

use super::TextError;
use super::parse::Reader;
use super::words::Text;
use crate::program::{Matrix, Program, Ref};

/// Prints an optional value after `before`; nothing if it is `None`.
pub(in crate::program) fn after<T: Text>(before: &str, what: Option<&T>) -> String {
    what.map_or(String::new(), |what| format!("{before}{}", what.text()))
}

pub(in crate::program) fn words<T: Text>(list: &[T]) -> String {
    let texts: Vec<String> = list.iter().map(Text::text).collect();
    texts.join(" ")
}

/// Prints a matrix: just its slot, if it fills the rows of the slot.
pub(in crate::program) fn matrix(matrix: &Matrix, program: &Program) -> String {
    let at = matrix.at.text();
    match (matrix.offset, Some(matrix.stride)) == (0, columns(matrix.at, program)) {
        true => at,
        false => format!("{at}@{}/{}", matrix.offset, matrix.stride),
    }
}

fn columns(at: Ref, program: &Program) -> Option<u32> {
    let buffer = program.buffers.get(at.buffer.0 as usize);
    buffer.map(|buffer| buffer.columns)
}

/// Reads a value after a comma, if there is a comma.
pub(in crate::program) fn optional<T>(
    from: &mut Reader<'_>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, TextError>,
) -> Result<Option<T>, TextError> {
    match from.skip(",") {
        true => read(from).map(Some),
        false => Ok(None),
    }
}

pub(in crate::program) fn arrow(from: &mut Reader<'_>) -> Result<Ref, TextError> {
    from.expect("->")?;
    Ref::parse(from)
}

pub(in crate::program) fn refs(from: &mut Reader<'_>) -> Result<Vec<Ref>, TextError> {
    let mut refs = Vec::new();
    while from.at_numbered("b") {
        refs.push(Ref::parse(from)?);
    }
    Ok(refs)
}

pub(in crate::program) fn matrix_at(from: &mut Reader<'_>) -> Result<Matrix, TextError> {
    let at = Ref::parse(from)?;
    if from.skip("@") {
        let offset = from.number()?;
        from.expect("/")?;
        let stride = from.number()?;
        return Ok(Matrix { at, offset, stride });
    }
    let stride = columns(at, &from.program);
    let stride = stride.ok_or_else(|| from.wrong_before("a buffer that is listed"))?;
    let offset = 0;
    Ok(Matrix { at, offset, stride })
}

pub(in crate::program) fn factor_and_result(
    from: &mut Reader<'_>,
) -> Result<(Matrix, Matrix), TextError> {
    from.expect(".")?;
    let b = matrix_at(from)?;
    from.expect("->")?;
    Ok((b, matrix_at(from)?))
}
