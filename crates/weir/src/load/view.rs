//! A run while it goes on: a picture on a terminal, and a line a second elsewhere. It is drawn by a
//! thread of its own: a terminal that stands still holds up no window.

mod picture;

use std::io::{self, IsTerminal, Stderr, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use meter::engine::{FinishedWindow, Plan, Row, Stop};
use meter::failure::Owner;
use meter::verdict::{Evidence, Thresholds, doubts};
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

/// How often it is drawn anew.
const REDRAW: Duration = Duration::from_millis(250);
/// Windows that wait to be drawn; further ones are not shown.
const WAITING_MAX: usize = 16;

/// A window, as far as it is shown.
#[derive(Debug, Clone, Copy)]
pub struct ShownWindow {
    row: Row,
    /// Errors by owner, in the order of [`Owner::ALL`].
    errors: [u64; Owner::ALL.len()],
}

/// What windows tell of whether the numbers of a run can be believed, while it goes on. What is
/// known at its end alone, as Little's law, is not in it.
pub struct SoFar {
    closed: bool,
    thresholds: Thresholds,
    seconds: u32,
    sends: u64,
    late: u64,
    busy: Duration,
    errors: u64,
}

impl SoFar {
    pub fn new(closed: bool, thresholds: Thresholds) -> Self {
        let (sends, late, busy, errors) = (0, 0, Duration::ZERO, 0);
        Self { closed, thresholds, seconds: 0, sends, late, busy, errors }
    }

    pub fn add(&mut self, shown: &ShownWindow) {
        self.seconds += 1;
        self.sends += shown.row.sent;
        self.late += shown.row.late;
        self.busy += shown.row.busy;
        let of_injector = Owner::ALL.iter().zip(shown.errors);
        let of_injector = of_injector.filter(|(owner, _)| **owner == Owner::Injector);
        self.errors += of_injector.map(|(_, errors)| errors).sum::<u64>();
    }

    /// Why the run would be INVALID if it ended now.
    pub fn doubt(&self) -> Option<String> {
        let evidence = Evidence {
            sends: self.sends,
            late: self.late,
            busy: self.busy.as_secs_f64() / f64::from(self.seconds.max(1)),
            errors: self.errors,
            ..Evidence::quiet(self.closed)
        };
        doubts(&evidence, &self.thresholds).into_iter().next().map(|doubt| doubt.cause)
    }
}

/// Who watches a run.
pub enum View {
    /// Somebody at a terminal.
    Picture(Option<SyncSender<ShownWindow>>, Option<JoinHandle<()>>),
    /// A file, or another program.
    Lines(SoFar),
}

impl View {
    /// Begins to show a run.
    pub fn of(url: &str, plan: &Plan, stop: Stop) -> Self {
        // A terminal that can't move its cursor calls itself dumb.
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let so_far = || SoFar::new(plan.is_closed(), plan.thresholds);
        if !io::stderr().is_terminal() || is_dumb {
            return Self::Lines(so_far());
        }
        let (duration, is_closed) = (plan.duration(), plan.is_closed());
        let about = About { url: url.to_owned(), duration, is_closed };
        let (say, heard) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("view".to_owned());
        let begun = Progress::new(about, so_far());
        let spawned = thread.spawn(move || {
            // A terminal that is gone ends no run.
            let _ = Screen::enter().and_then(|screen| look_on(screen, &heard, begun, &stop));
        });
        match spawned {
            Ok(thread) => Self::Picture(Some(say), Some(thread)),
            Err(_) => Self::Lines(so_far()),
        }
    }

    /// Shows a window that has ended.
    pub fn window(&mut self, ended: &FinishedWindow) {
        let shown = ShownWindow { row: ended.row, errors: Owner::counts(&ended.results) };
        match self {
            Self::Picture(Some(say), _) => drop(say.try_send(shown)),
            Self::Picture(None, _) => {}
            Self::Lines(so_far) => {
                so_far.add(&shown);
                let doubt = so_far.doubt().map(|cause| format!("  INVALID so far: {cause}"));
                let doubt = doubt.unwrap_or_default();
                drop(writeln!(io::stderr(), "{}{doubt}", line(&shown)));
            }
        }
    }
}

impl Drop for View {
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
    let ShownWindow { row, errors } = shown;
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
            Ok(shown) => seen.add(&shown),
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
            line(&ShownWindow { row, errors: [0, 3, 0, 2] }),
            "    5 s  due    2,000  sent    1,999  ended    1,998  p50   1.00ms  p99   2.00ms  \
             max   3.00ms  busy  12 %  late 7  errors of the network 3  \
             failed checks 2"
        );
        let row = Row { injectors: [false, true, true], ..row };
        let said = line(&ShownWindow { row, errors: [0; 4] });
        let end = "busy  12 %  p99 is the injector's  max is the injector's  late 7";
        assert!(said.ends_with(end), "{said}");
    }
}
