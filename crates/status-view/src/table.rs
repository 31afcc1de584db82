//! Columns and colours of text for people.

/// Whether the output is for a terminal, and whether it has colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The output is a terminal.
    pub terminal: bool,
    colours: bool,
}

impl Style {
    /// Colours are for terminals, and not where `NO_COLOR` is set.
    pub fn new(terminal: bool, no_color: bool) -> Self {
        Self { terminal, colours: terminal && !no_color }
    }

    /// Text that is well.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// Text that is not well.
    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Text that is on its way.
    pub fn pending(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// A heading.
    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Columns of equal width, three spaces between them, as kubectl has them.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with a row of headings.
    pub fn new(headings: &[&str]) -> Self {
        let mut table = Self::default();
        table.row(headings.iter().map(|heading| (*heading).to_owned()));
        table
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// All rows as text.
    pub fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| shown(cell)).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                line.push_str(&" ".repeat(width.saturating_sub(shown(cell)) + 3));
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// A cell on one line, without what a terminal would take for a command. Colours are set after this.
pub fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    line
}

/// Columns that a text takes on a terminal.
fn shown(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_end_of_spaces() {
        let mut table = Table::new(&["NAME", "READY", ""]);
        table.row(["chat".to_owned(), "1/1".to_owned(), String::new()]);
        table.row(["a-longer-name".to_owned(), "0/1".to_owned(), "two\nlines\u{1b}[2J".to_owned()]);
        let expected = "NAME            READY\nchat            1/1\na-longer-name   0/1     two lines[2J\n";
        assert_eq!(table.text(), expected);
    }

    #[test]
    fn colours_are_for_terminals_only() {
        for (terminal, no_color, text) in
            [(true, false, "\u{1b}[31mno\u{1b}[0m"), (true, true, "no"), (false, false, "no"), (false, true, "no")]
        {
            assert_eq!(Style::new(terminal, no_color).bad("no"), text, "{terminal} {no_color}");
        }
    }
}
