//! What a terminal shows of a run that goes on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use meter::failure::Owner;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Chart, Dataset, GraphType, LineGauge, Paragraph};
use watch::words::count;

use super::ShownWindow;

/// Seconds of the lines.
const SECONDS_MAX: usize = 600;
/// Below that the lines have no room, and only numbers are shown.
const CHART_HEIGHT_MIN: u16 = 6;
const PANEL_HEIGHT: u16 = 6;

/// What is known before it begins.
pub struct About {
    pub url: String,
    pub duration: Duration,
    pub is_closed: bool,
}

/// What has been seen so far.
pub struct Progress {
    about: About,
    rows: VecDeque<ShownWindow>,
    /// When the last window came.
    at: Instant,
    errors: [u64; Owner::ALL.len()],
    offered: u64,
    sent: u64,
    late: u64,
    /// Somebody wants it to end.
    pub is_stopping: bool,
}

impl Progress {
    pub fn new(about: About) -> Self {
        let (rows, at, errors) = (VecDeque::new(), Instant::now(), Default::default());
        let (offered, sent, late) = (0, 0, 0);
        Self { about, rows, at, errors, offered, sent, late, is_stopping: false }
    }

    pub fn add(&mut self, shown: ShownWindow) {
        if self.rows.len() == SECONDS_MAX {
            self.rows.pop_front();
        }
        self.at = Instant::now();
        self.offered += shown.row.offered;
        self.sent += shown.row.sent;
        self.late += shown.row.late;
        for (sum, more) in self.errors.iter_mut().zip(shown.errors) {
            *sum += more;
        }
        self.rows.push_back(shown);
    }

    /// How much of it is over, and what is to be said of that.
    fn progress(&self) -> (f64, String) {
        let Some(last) = self.rows.back() else {
            let words = if self.is_stopping { STOPPING } else { "connecting, warming up" };
            return (0.0, words.to_owned());
        };
        let whole = Duration::from_secs(last.row.number + 1);
        let left = self.about.duration.saturating_sub(whole + self.at.elapsed());
        let share = 1.0 - left.as_secs_f64() / self.about.duration.as_secs_f64().max(1e-9);
        let words = match left {
            _ if self.is_stopping => STOPPING.to_owned(),
            Duration::ZERO => "waiting for answers".to_owned(),
            left => format!("{} s left", count(left.as_secs_f64().ceil() as u64)),
        };
        (share.clamp(0.0, 1.0), words)
    }
}

const STOPPING: &str = "stopping: waiting for answers; Ctrl-C again does not wait";

pub fn draw(frame: &mut Frame<'_>, seen: &Progress) {
    let area = frame.area();
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(PANEL_HEIGHT),
    ]);
    let [title, gauge, chart, panels] = rows.areas(area);
    let mut name = Line::from_iter(["weir load ".bold(), Span::raw(&*seen.about.url)]);
    if let Some(cause) = seen.rows.back().and_then(|shown| shown.doubt.as_deref()) {
        name = Line::from_iter(["INVALID so far: ".red().bold(), Span::raw(cause)]);
    }
    frame.render_widget(name, title);
    let (share, words) = seen.progress();
    let shown = LineGauge::default().ratio(share).label(words).filled_style(Color::Blue);
    frame.render_widget(shown.unfilled_style(Color::DarkGray), gauge);
    if chart.height >= CHART_HEIGHT_MIN {
        latency(frame, chart, seen);
    }
    let quarter = Constraint::Ratio(1, 4);
    let [rates_area, latency_area, errors_area, injector_area] =
        Layout::horizontal([quarter; 4]).areas(panels);
    panel(frame, rates_area, " a second ", rates(seen));
    panel(frame, latency_area, " latency now ", latencies(seen));
    panel(frame, errors_area, " errors ", errors(seen));
    panel(frame, injector_area, " injector ", injector(seen));
}

fn panel(frame: &mut Frame<'_>, area: Rect, title: &'static str, lines: Vec<Line<'_>>) {
    let block = Block::bordered().border_style(Color::DarkGray).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A name and its number, in the colour of what it means.
fn figure(name: &str, number: String, style: Style) -> Line<'static> {
    Line::from_iter([Span::raw(format!("{name:<9}")), Span::styled(format!("{number:>9}"), style)])
}

fn rates(seen: &Progress) -> Vec<Line<'static>> {
    let last = seen.rows.back().map(|shown| shown.row).unwrap_or_default();
    // Nothing is due in a closed loop.
    let offered = if seen.about.is_closed { "-".to_owned() } else { count(last.offered) };
    let behind = seen.offered.saturating_sub(seen.sent);
    let style = if behind > last.offered / 10 { Color::Yellow.into() } else { Style::new() };
    vec![
        figure("due", offered, Style::new()),
        figure("sent", count(last.sent), style),
        figure("answered", count(last.ended - last.failed.min(last.ended)), Style::new()),
    ]
}

/// Those of the last second; the injector's own are in another colour.
fn latencies(seen: &Progress) -> Vec<Line<'static>> {
    let Some(shown) = seen.rows.back().filter(|shown| shown.row.ended > 0) else {
        return Vec::new();
    };
    let row = &shown.row;
    let figures = [("p50", row.p50), ("p99", row.p99), ("max", row.max)].into_iter();
    let lines = figures.zip(row.injectors).map(|((name, span), is_injectors)| {
        let style = if is_injectors { Color::Yellow.into() } else { Style::new() };
        figure(name, meter::summary::shown(span), style)
    });
    lines.collect()
}

fn errors(seen: &Progress) -> Vec<Line<'static>> {
    let lines = Owner::ALL.iter().zip(seen.errors).map(|(owner, errors)| {
        let style = if errors > 0 { Color::Red.into() } else { Style::new() };
        figure(&owner.to_string(), count(errors), style)
    });
    lines.collect()
}

fn injector(seen: &Progress) -> Vec<Line<'static>> {
    let last = seen.rows.back().map(|shown| shown.row).unwrap_or_default();
    let busy = last.busy.as_secs_f64() * 100.0;
    let paused = last.paused.as_secs_f64() * 1000.0;
    let made_latencies = last.injectors().next().is_some();
    let paused_style = if made_latencies { Color::Yellow.into() } else { Style::new() };
    let busy_style = if busy > 85.0 { Color::Red.into() } else { Style::new() };
    let late_style = if seen.late > 0 { Color::Yellow.into() } else { Style::new() };
    vec![
        figure("busy", format!("{busy:.0} %"), busy_style),
        figure("paused", format!("{paused:.0} ms"), paused_style),
        figure("late", count(seen.late), late_style),
        figure("to send", count(seen.offered.saturating_sub(seen.sent)), Style::new()),
    ]
}

/// Latency over time, by powers of ten: the p50 would else be a line on the ground.
fn latency(frame: &mut Frame<'_>, area: Rect, seen: &Progress) {
    let points = |of: fn(&ShownWindow) -> Duration| -> Vec<(f64, f64)> {
        let ended = seen.rows.iter().filter(|shown| shown.row.ended > 0);
        ended.map(|shown| (shown.row.number as f64 + 1.0, power(of(shown)))).collect()
    };
    let [p50, p99, max] = [points(|s| s.row.p50), points(|s| s.row.p99), points(|s| s.row.max)];
    let line = |name: &'static str, points, colour| {
        let line = Dataset::default().name(name).data(points).graph_type(GraphType::Line);
        line.marker(Marker::Braille).style(Style::new().fg(colour))
    };
    let low = p50.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min).floor();
    let high = max.iter().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max).ceil();
    let (low, high) = if low < high { (low, high) } else { (-1.0, 1.0) };
    let from = seen.rows.front().map_or(0.0, |shown| shown.row.number as f64);
    let to = seen.rows.back().map_or(1.0, |shown| shown.row.number as f64 + 1.0).max(from + 10.0);
    let powers = low as i32..=high as i32;
    let labels: Vec<String> = powers.map(|power| millis(10_f64.powi(power))).collect();
    let chart = Chart::new(vec![
        line("max", &max, Color::DarkGray),
        line("p99", &p99, Color::Yellow),
        line("p50", &p50, Color::Blue),
    ]);
    let axis = || Axis::default().style(Color::DarkGray);
    let title = Line::from_iter([
        " latency  ".into(),
        "p50  ".blue(),
        "p99  ".yellow(),
        "max ".dark_gray(),
    ]);
    let seconds = [format!("{from:.0} s"), format!("{to:.0} s")];
    let chart = chart
        .block(Block::bordered().border_style(Color::DarkGray).title(title))
        // There is no room for a legend; the title has the names in their colours.
        .legend_position(None)
        .x_axis(axis().bounds([from, to]).labels(seconds))
        .y_axis(axis().bounds([low, high]).labels(labels));
    frame.render_widget(chart, area);
}

/// The power of ten that a time is of milliseconds.
fn power(span: Duration) -> f64 {
    (span.as_secs_f64() * 1000.0).max(1e-3).log10()
}

fn millis(millis: f64) -> String {
    match millis {
        _ if millis < 1.0 => format!("{:.0} us", millis * 1000.0),
        _ if millis < 1000.0 => format!("{millis:.0} ms"),
        _ => format!("{:.0} s", millis / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meter::engine::Row;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::{About, Progress, SECONDS_MAX, ShownWindow, draw};

    fn seen(windows: u64) -> Progress {
        let about = About {
            url: "http://127.0.0.1:8086/ping".to_owned(),
            duration: Duration::from_secs(3600),
            is_closed: false,
        };
        let mut seen = Progress::new(about);
        for number in 0..windows {
            let [p50, p99, max, busy] = [1, 5, 40, 250].map(Duration::from_millis);
            let row = Row {
                number,
                offered: 1000,
                sent: 990,
                ended: 980,
                failed: 2,
                late: 1,
                busy,
                p50,
                p99,
                max,
                paused: Duration::from_millis(33),
                injectors: [false, false, true],
            };
            let doubt = (number > 8).then(|| format!("{} of them were late", number + 1));
            seen.add(ShownWindow { row, errors: [0, 1, 1, 0], doubt });
        }
        seen
    }

    fn screen(seen: &Progress, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, seen)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_run_is_shown_with_all_that_matters_while_it_goes_on() {
        let text = screen(&seen(20), 80, 24);
        for part in [
            // What can't be believed any more is told before the run ends.
            "INVALID so far: 20 of them were late",
            "3,580 s left",
            "latency",
            "p50        1.00 ms",
            "p99        5.00 ms",
            "max       40.00 ms",
            "10 ms",
            "due          1,000",
            "sent           990",
            "answered       978",
            "network         20",
            "busy          25 %",
            "paused       33 ms",
            "late            20",
            "to send        200",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let mut stopping = seen(3);
        stopping.is_stopping = true;
        assert!(screen(&stopping, 80, 24).contains("Ctrl-C again does not wait"));
        assert!(screen(&seen(0), 80, 24).contains("connecting, warming up"));
        assert!(screen(&seen(1), 80, 24).contains("weir load http://127.0.0.1:8086/ping"));
    }

    #[test]
    fn no_terminal_is_too_small_and_no_run_too_long() {
        let long = seen(SECONDS_MAX as u64 + 50);
        assert_eq!(long.rows.len(), SECONDS_MAX);
        for (width, height) in [(1, 1), (10, 3), (40, 12), (300, 100)] {
            for seen in [&long, &seen(0), &seen(1)] {
                screen(seen, width, height);
            }
        }
    }
}
