//! Launches and matrices of a listing, written and read.

use super::TextError;
use super::parse::Reader;
use super::words::Text;
use crate::graph::op::Site;
use crate::kernel::Kernel;
use crate::program::{Chunk, Extent, KernelId, Launch, Matrix, Program, Ref, ScalarRef};

/// The text of what may be there, behind something.
pub(super) fn after<T: Text>(before: &str, what: Option<&T>) -> String {
    what.map_or(String::new(), |what| format!("{before}{}", what.text()))
}

pub(super) fn words<T: Text>(list: &[T]) -> String {
    let texts: Vec<String> = list.iter().map(Text::text).collect();
    texts.join(" ")
}

pub(super) fn launch_text(launch: &Launch, program: &Program) -> String {
    let Launch {
        kernel,
        rows,
        inputs,
        outputs,
        scalars,
        sites,
        lists,
        chunk,
    } = launch;
    let name = program.kernels.get(kernel.0 as usize);
    let name = name.map_or("launch", |kernel: &Kernel| kernel.body.name());
    let mut text = format!("{name} {} over {}", kernel.text(), rows.text());
    text += &after(", ", chunk.as_ref());
    let inputs: Vec<String> = inputs.iter().map(|at| format!(" {}", at.text())).collect();
    text += &format!(":{} -> {}", inputs.concat(), words(outputs));
    if !scalars.is_empty() {
        text += &format!(", scalars {}", words(scalars));
    }
    if !sites.is_empty() {
        text += &format!(", sites {}", words(sites));
    }
    if !lists.is_empty() {
        text += &format!(", lists {}", words(lists));
    }
    text
}

/// A matrix; what fills the rows of its slot is its slot.
pub(super) fn matrix(matrix: &Matrix, program: &Program) -> String {
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

/// Reads what stands behind a comma, if there is one.
pub(super) fn optional<T>(
    from: &mut Reader<'_>,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, TextError>,
) -> Result<Option<T>, TextError> {
    match from.skip(",") {
        true => read(from).map(Some),
        false => Ok(None),
    }
}

pub(super) fn arrow(from: &mut Reader<'_>) -> Result<Ref, TextError> {
    from.expect("->")?;
    Ref::parse(from)
}

pub(super) fn refs(from: &mut Reader<'_>) -> Result<Vec<Ref>, TextError> {
    let mut refs = Vec::new();
    while from.at_numbered("b") {
        refs.push(Ref::parse(from)?);
    }
    Ok(refs)
}

pub(super) fn matrix_at(from: &mut Reader<'_>) -> Result<Matrix, TextError> {
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

pub(super) fn factor_and_result(from: &mut Reader<'_>) -> Result<(Matrix, Matrix), TextError> {
    from.expect(".")?;
    let b = matrix_at(from)?;
    from.expect("->")?;
    Ok((b, matrix_at(from)?))
}

/// Reads a launch behind the name of its kernel.
pub(super) fn launch(from: &mut Reader<'_>, name: &str) -> Result<Launch, TextError> {
    let kernel = KernelId::parse(from)?;
    let known = from.program.kernels.get(kernel.0 as usize);
    let expected = known.map_or("launch", |kernel| kernel.body.name());
    if name != expected {
        return Err(from.wrong_before(&format!(
            "a kernel that is a {name}, this one is a {expected}"
        )));
    }
    from.expect("over")?;
    let rows = Extent::parse(from)?;
    let chunk = optional(from, Chunk::parse)?;
    from.expect(":")?;
    let inputs = refs(from)?;
    from.expect("->")?;
    let outputs = refs(from)?;
    let mut launch = Launch {
        kernel,
        rows,
        inputs,
        outputs,
        scalars: Vec::new(),
        sites: Vec::new(),
        lists: Vec::new(),
        chunk,
    };
    while from.skip(",") {
        match from.word("scalars, sites or lists")? {
            "scalars" => {
                while matches!(from.next_word(), Some("learning-rate" | "bias-correction")) {
                    launch.scalars.push(ScalarRef::parse(from)?);
                }
            }
            "sites" => {
                while from.at_numbered("s") {
                    launch.sites.push(Site::parse(from)?);
                }
            }
            "lists" => launch.lists = refs(from)?,
            _ => return Err(from.wrong_before("scalars, sites or lists")),
        }
    }
    Ok(launch)
}
