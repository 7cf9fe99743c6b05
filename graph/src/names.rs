//! Texts for the elements of a list: the ids of vertices, the names of classes.

/// One text for each element, or none at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// All texts, one after the other.
    text: String,
    /// Where each of them ends.
    ends: Vec<usize>,
}

impl Names {
    /// Appends a text.
    pub fn push(&mut self, name: &str) {
        self.text.push_str(name);
        self.ends.push(self.text.len());
    }

    /// Number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The text of an element, if there are texts.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let begin = match index {
            0 => 0,
            _ => self.ends[index - 1],
        };
        Some(&self.text[begin..end])
    }

    /// All texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The texts as lines, which [`Names::from_lines`] reads. A line end in a text becomes a space.
    pub fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.text.len() + self.len());
        for name in self.iter() {
            lines.extend(
                name.bytes()
                    .map(|byte| if byte == b'\n' { b' ' } else { byte }),
            );
            lines.push(b'\n');
        }
        lines
    }

    /// Reads lines.
    pub fn from_lines(lines: &str) -> Self {
        let mut names = Self::default();
        lines.lines().for_each(|line| names.push(line));
        names
    }
}

impl<S: AsRef<str>> FromIterator<S> for Names {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut all = Self::default();
        names.into_iter().for_each(|name| all.push(name.as_ref()));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_were_written() {
        let names: Names = ["a", "", "b c", "é"].into_iter().collect();
        let text = String::from_utf8(names.lines()).unwrap();
        assert_eq!(Names::from_lines(&text), names);
        assert_eq!(
            (names.len(), names.get(2), names.get(4)),
            (4, Some("b c"), None)
        );
        let broken: Names = ["a\nb"].into_iter().collect();
        assert_eq!(broken.lines(), b"a b\n");
        assert!(Names::from_lines("").is_empty());
    }
}
