//! C text, line by line, with indentation.

/// Text under construction.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
    depth: usize,
}

impl Text {
    /// A line.
    pub fn line(&mut self, line: impl AsRef<str>) {
        let line = line.as_ref();
        if !line.is_empty() {
            self.out.push_str(&"    ".repeat(self.depth));
            self.out.push_str(line);
        }
        self.out.push('\n');
    }

    /// A line at the left margin, for the preprocessor.
    pub fn directive(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// Opens `head {`; later lines are indented.
    pub fn open(&mut self, head: impl AsRef<str>) {
        let head = head.as_ref();
        self.line(if head.is_empty() {
            "{".to_owned()
        } else {
            format!("{head} {{")
        });
        self.depth += 1;
    }

    /// Closes `}`.
    pub fn close(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        self.line("}");
    }

    /// The finished text.
    pub fn finish(self) -> String {
        self.out
    }
}
