//! Lines that change: redrawn in place on a terminal, else each change as a line of its own.

use std::{io, io::Write, time::Instant};

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
