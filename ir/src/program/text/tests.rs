//! Reading what was printed gives the same program.

use super::*;
use crate::program::Program;

/// Every instruction, kernel, role and operand form once, as printed.
const ALL: &str = include_str!("tests/all.prog");

#[test]
fn a_listing_is_printed_as_it_was_read() {
    let program: Program = ALL.parse().unwrap();
    let printed = program.to_string();
    for (found, expected) in printed.lines().zip(ALL.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(printed.len(), ALL.len());
    let listing = Listing(&program).to_string();
    assert!(listing.contains("\n    10.1  receive next b0"), "{listing}");
    assert_eq!(listing.parse::<Program>().unwrap(), program);
}

#[test]
fn comments_and_spaces_mean_nothing() {
    let plain: Program =
        "program 1 ranks, rank 0 buffers b0 inner x 4 temp \"a \\\"b\\\" \\\\ c\" step \
                          densify b0 -> b0"
            .parse()
            .unwrap();
    assert_eq!(plain.buffers[0].name, r#"a "b" \ c"#);
    let text = format!("# first\n{plain}# last");
    assert_eq!(text.parse::<Program>().unwrap(), plain);
}

#[test]
fn what_is_no_listing_is_refused_at_its_line() {
    let head = "program 1 ranks, rank 0\nbuffers\n  b0 inner x 4 temp \"h\"\nstep\n";
    for (text, expected) in [
        ("", "line 1: found the end, expected `program`"),
        (
            "program 1 ranks, rank x",
            "line 1: found `x`, expected a number",
        ),
        (
            "program 5000000000 ranks, rank 0",
            "expected a number that fits here",
        ),
        (
            "program 1 ranks, rank 0\nbuffers\nb1 inner x 4 temp \"h\"",
            "line 3: found `b1`, expected `b0`",
        ),
        ("program 1 ranks, rank 0 \u{e9}", "line 1: found `\u{e9}`"),
        (
            "program 1 ranks, rank 0\nbuffers b0 inner x 4 temp \"h",
            "a closed quoted text",
        ),
        (
            "program 1 ranks, rank 0\nfoo",
            "line 2: found `foo`, expected params, buffers",
        ),
    ] {
        let error = text.parse::<Program>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (instr, expected) in [
        (
            "gemm nn b0 . b9 -> b0, inner x 4 x 4",
            "line 5: found `b9`, expected a buffer that is listed",
        ),
        (
            "spmm k0 over inner: b0 -> b0",
            "line 5: found `k0`, expected a kernel that is a spmm",
        ),
        ("densify b0", "line 5: found the end, expected `->`"),
        (
            "repeat 3 {\n densify b0 -> b0",
            "line 6: found the end, expected `}`",
        ),
        ("split b0", "line 5: found `split`, expected an instruction"),
        (
            "halo-exchange b0, skip \"never\" copies b0",
            "expected a rule, such as",
        ),
        ("halo-exchange b0[j]", "line 5: found `j`"),
    ] {
        let error = format!("{head}{instr}").parse::<Program>().unwrap_err();
        assert!(error.to_string().contains(expected), "{instr}: {error}");
    }
}

/// Neither nesting nor large numbers exhaust the stack or memory.
#[test]
fn hostile_listings_are_refused() {
    let deep = format!(
        "program 1 ranks, rank 0\nstep\n{}",
        "repeat 2 {\n".repeat(100_000)
    );
    let error = deep.parse::<Program>().unwrap_err().to_string();
    assert!(error.contains("at most 16 nested instructions"), "{error}");
    let halves = format!(
        "program 1 ranks, rank 0\nstep\n{}",
        "begin 1 ".repeat(100_000)
    );
    assert!(halves.parse::<Program>().is_err());
    let wide = "program 1 ranks, rank 0\nkernels\nk0 map 4294967295 x 4294967295 { in row }";
    assert!(wide.parse::<Program>().is_err());
}
