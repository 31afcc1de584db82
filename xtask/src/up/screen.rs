//! Shows lines that change: redrawn in place on a terminal, else each change as a line of its own.

use std::{
    io::{self, Write},
    time::Instant,
};

/// Where lines are shown.
pub(super) struct Screen<W> {
    out: W,
    /// Whether what was shown can be taken back.
    terminal: bool,
    start: Instant,
    shown: Vec<String>,
}

impl<W: Write> Screen<W> {
    /// An empty screen.
    pub(super) fn new(out: W, terminal: bool) -> Self {
        Self { out, terminal, start: Instant::now(), shown: Vec::new() }
    }

    /// Shows `lines` in place of those that were shown before.
    ///
    /// # Errors
    /// The output is gone.
    pub(super) fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        if lines == self.shown {
            return Ok(());
        }
        if self.terminal {
            self.take_back()?;
            // A line that is wider than the terminal must not become two, or the next one is drawn in the wrong place.
            write!(self.out, "\x1b[?7l")?;
            lines.iter().try_for_each(|line| writeln!(self.out, "{line}"))?;
            write!(self.out, "\x1b[?7h")?;
        } else {
            let time = self.start.elapsed().as_secs_f64();
            let new = lines.iter().filter(|line| !self.shown.contains(line));
            new.into_iter().try_for_each(|line| writeln!(self.out, "[{time:6.1}s] {line}"))?;
        }
        self.shown = lines;
        self.out.flush()
    }

    /// Says something that stays.
    ///
    /// # Errors
    /// The output is gone.
    pub(super) fn say(&mut self, text: &str) -> io::Result<()> {
        if self.terminal {
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
        let mut screen = Screen::new(&mut out, false);
        screen.show(lines(&["a 0/1", "b 0/1"])).unwrap();
        screen.show(lines(&["a 0/1", "b 0/1"])).unwrap();
        screen.show(lines(&["a 0/1", "b 1/1"])).unwrap();
        screen.say("done").unwrap();
        let text = String::from_utf8(out).unwrap();
        let reported: Vec<_> = text.lines().map(|line| line.rsplit("] ").next().unwrap()).collect();
        assert_eq!(reported, ["a 0/1", "b 0/1", "b 1/1", "done"]);
    }

    #[test]
    fn on_a_terminal_lines_are_drawn_over_and_words_stay() {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, true);
        screen.show(lines(&["a", "b"])).unwrap();
        screen.say("done").unwrap();
        let text = String::from_utf8(out).unwrap();
        let draw = "\x1b[?7la\nb\n\x1b[?7h";
        assert_eq!(text, format!("{draw}\x1b[2A\r\x1b[Jdone\n{draw}"));
    }
}
