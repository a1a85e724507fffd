//! A run while it goes on: a picture on a terminal, and a line a second elsewhere. It is drawn by a
//! thread of its own: a terminal that stands still holds up no window.

// From the top down; a file takes from those below it.
//   picture
//   so_far

mod picture;
mod so_far;

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use meter::engine::{FinishedWindow, Plan, Row, Stop};
use meter::failure::Owner;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen,
};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use watch::words::count;

use picture::{About, Progress};
use so_far::SoFar;

/// How often it is drawn anew.
const REDRAW: Duration = Duration::from_millis(250);
/// Windows that wait to be drawn; further ones are not shown.
const WAITING_MAX: usize = 16;

/// A window, as far as it is shown.
#[derive(Debug, Clone)]
pub struct ShownWindow {
    row: Row,
    /// Errors by owner, in the order of [`Owner::ALL`].
    errors: [u64; Owner::ALL.len()],
    /// Why the run would be INVALID if it ended with it.
    doubt: Option<String>,
}

/// Who watches a run.
enum Watcher {
    /// Somebody at a terminal.
    Picture(Option<SyncSender<ShownWindow>>, Option<JoinHandle<()>>),
    /// A file, or another program.
    Lines,
}

/// What is shown of a run, and to whom.
pub struct View {
    so_far: SoFar,
    watcher: Watcher,
}

impl View {
    /// Begins to show a run.
    pub fn of(url: &str, plan: &Plan, stop: Stop) -> Self {
        let so_far = SoFar::new(plan.is_closed(), plan.threads, plan.thresholds);
        Self { so_far, watcher: Watcher::of(url, plan, stop) }
    }

    /// Shows a window that has ended.
    pub fn window(&mut self, ended: &FinishedWindow) {
        self.so_far.add(ended);
        let (row, errors) = (ended.row, Owner::counts(&ended.results));
        let shown = ShownWindow { row, errors, doubt: self.so_far.doubt() };
        match &self.watcher {
            Watcher::Picture(Some(say), _) => drop(say.try_send(shown)),
            Watcher::Picture(None, _) => {}
            Watcher::Lines => drop(writeln!(io::stderr(), "{}", line(&shown))),
        }
    }
}

impl Watcher {
    fn of(url: &str, plan: &Plan, stop: Stop) -> Self {
        // A terminal that can't move its cursor calls itself dumb.
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if !io::stderr().is_terminal() || is_dumb {
            return Self::Lines;
        }
        let (duration, is_closed) = (plan.duration(), plan.is_closed());
        let begun = Progress::new(About { url: url.to_owned(), duration, is_closed });
        let (say, heard) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("view".to_owned());
        let spawned = thread.spawn(move || {
            // A terminal that is gone ends no run.
            let _ = Screen::enter().and_then(|screen| look_on(screen, &heard, begun, &stop));
        });
        match spawned {
            Ok(thread) => Self::Picture(Some(say), Some(thread)),
            Err(_) => Self::Lines,
        }
    }
}

impl Drop for Watcher {
    /// The terminal is as it was before anything else is said on it.
    fn drop(&mut self) {
        if let Self::Picture(say, thread) = self {
            drop(say.take());
            thread.take().map(JoinHandle::join);
        }
    }
}

/// A second in a line.
fn line(shown: &ShownWindow) -> String {
    let ShownWindow { row, errors, doubt } = shown;
    let mut text = format!(
        "{:>5} s  due {:>8}  sent {:>8}  ended {:>8}  p50 {:>8.2?}  p99 {:>8.2?}  max {:>8.2?}  \
         busy {:>3.0} %",
        row.number + 1,
        count(row.offered),
        count(row.sent),
        count(row.ended),
        row.p50,
        row.p99,
        row.max,
        row.busy.as_secs_f64() * 100.0,
    );
    for name in row.injectors() {
        text += &format!("  {name} is the injector's");
    }
    if row.late > 0 {
        text += &format!("  late {}", count(row.late));
    }
    for (owner, errors) in Owner::ALL.iter().zip(errors).filter(|(_, errors)| **errors > 0) {
        text += &match owner {
            Owner::Check => format!("  failed checks {}", count(*errors)),
            owner => format!("  errors of the {owner} {}", count(*errors)),
        };
    }
    if let Some(cause) = doubt {
        text += &format!("  INVALID so far: {cause}");
    }
    text
}

/// The terminal, which gets its lines back when this goes. Its size is looked at here: ratatui
/// would ask the terminal where its cursor is, and wait for an answer that a program gets only
/// where it takes all keys for itself.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    size: (u16, u16),
}

impl Screen {
    fn enter() -> io::Result<Self> {
        execute!(io::stderr(), EnterAlternateScreen)?;
        Ok(Self { terminal: fitted((0, 0))?, size: (0, 0) })
    }

    /// Draws; anew from nothing where the size has changed or somebody else has written.
    fn draw(&mut self, seen: &Progress, is_spoilt: bool) -> io::Result<()> {
        let size = terminal::size()?;
        if is_spoilt || size != self.size {
            execute!(io::stderr(), Clear(ClearType::All))?;
            (self.terminal, self.size) = (fitted(size)?, size);
        }
        self.terminal.draw(|frame| picture::draw(frame, seen)).map(drop)
    }
}

fn fitted((width, height): (u16, u16)) -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    let viewport = Viewport::Fixed(Rect::new(0, 0, width, height));
    Terminal::with_options(CrosstermBackend::new(io::stderr()), TerminalOptions { viewport })
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    }
}

/// Draws until nobody says anything more.
fn look_on(
    mut screen: Screen,
    heard: &Receiver<ShownWindow>,
    mut seen: Progress,
    stop: &Stop,
) -> io::Result<()> {
    let mut is_spoilt = false;
    loop {
        screen.draw(&seen, is_spoilt)?;
        match heard.recv_timeout(REDRAW) {
            Ok(shown) => seen.add(shown),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        // The terminal shows the keys that ask for the end by itself.
        is_spoilt = stop.is_asked() && !seen.is_stopping;
        seen.is_stopping = stop.is_asked();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::engine::Row;

    use super::{ShownWindow, line};

    #[test]
    fn a_second_in_a_line_names_who_made_its_errors() {
        let [p50, p99, max, busy] = [1, 2, 3, 120].map(Duration::from_millis);
        let row = Row { number: 4, offered: 2000, sent: 1999, ended: 1998, ..Row::default() };
        let row = Row { late: 7, p50, p99, max, busy, ..row };
        assert_eq!(
            line(&ShownWindow { row, errors: [0, 3, 0, 2], doubt: None }),
            "    5 s  due    2,000  sent    1,999  ended    1,998  p50   1.00ms  p99   2.00ms  \
             max   3.00ms  busy  12 %  late 7  errors of the network 3  \
             failed checks 2"
        );
        let row = Row { injectors: [false, true, true], ..row };
        let doubt = Some("it stood still".to_owned());
        let said = line(&ShownWindow { row, errors: [0; 4], doubt });
        let end = "busy  12 %  p99 is the injector's  max is the injector's  late 7  \
                   INVALID so far: it stood still";
        assert!(said.ends_with(end), "{said}");
    }
}
