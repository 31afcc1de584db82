//! Columns and colours of text for people, and lines that change: redrawn in place on a terminal, else each change as a
//! line of its own.

use std::{io, io::Write, time::Instant};

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

/// An output that shows lines: a terminal, where they are drawn over, or a log, which gets those that are new.
#[derive(Debug)]
pub struct Terminal<W> {
    out: W,
    /// Whether lines can be drawn over.
    redraws: bool,
    start: Instant,
    shown: Vec<String>,
}

impl<W: Write> Terminal<W> {
    /// An empty terminal.
    pub fn new(out: W, redraws: bool) -> Self {
        Self { out, redraws, start: Instant::now(), shown: Vec::new() }
    }

    /// Shows `lines` in place of those that were shown before.
    ///
    /// # Errors
    /// The output is gone.
    pub fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        if lines == self.shown {
            return Ok(());
        }
        if self.redraws {
            self.take_back()?;
            // A line that is wider than the terminal must not become two, or the next one is drawn in the wrong place.
            write!(self.out, "\x1b[?7l")?;
            lines.iter().try_for_each(|line| writeln!(self.out, "{line}"))?;
            write!(self.out, "\x1b[?7h")?;
        } else {
            let time = self.start.elapsed().as_secs_f64();
            let new = lines.iter().filter(|line| !line.is_empty() && !self.shown.contains(line));
            new.into_iter().try_for_each(|line| writeln!(self.out, "[{time:6.1}s] {line}"))?;
        }
        self.shown = lines;
        self.out.flush()
    }

    /// Says something that stays.
    ///
    /// # Errors
    /// The output is gone.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        if self.redraws {
            self.take_back()?;
            writeln!(self.out, "{text}")?;
            let lines = std::mem::take(&mut self.shown);
            return self.show(lines);
        }
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }

    fn take_back(&mut self) -> io::Result<()> {
        match self.shown.len() {
            0 => Ok(()),
            lines => write!(self.out, "\x1b[{lines}A\r\x1b[J"),
        }
    }
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

    fn lines(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn without_a_terminal_only_changes_are_written() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false);
        terminal.show(lines(&["a 0/1", "b 0/1"])).unwrap();
        terminal.show(lines(&["a 0/1", "b 0/1"])).unwrap();
        terminal.show(lines(&["a 0/1", "", "b 1/1"])).unwrap();
        terminal.say("done").unwrap();
        let text = String::from_utf8(out).unwrap();
        let reported: Vec<_> = text.lines().map(|line| line.rsplit("] ").next().unwrap()).collect();
        assert_eq!(reported, ["a 0/1", "b 0/1", "b 1/1", "done"]);
    }

    #[test]
    fn on_a_terminal_lines_are_drawn_over_and_words_stay() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, true);
        terminal.show(lines(&["a", "b"])).unwrap();
        terminal.say("done").unwrap();
        let text = String::from_utf8(out).unwrap();
        let draw = "\x1b[?7la\nb\n\x1b[?7h";
        assert_eq!(text, format!("{draw}\x1b[2A\r\x1b[Jdone\n{draw}"));
    }
}
