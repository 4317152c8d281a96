//! The terminal of `top`: what a key does, and how the tables are drawn.

use super::super::terminal_text::cut_text;
use super::top_table::{
    COLUMN_GAP, ROUTE_COLUMNS, RUN_COLUMNS, SortOrder, TableColumn, TableRow, align_cell, column_widths,
    fitting_columns,
};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Clear, Paragraph};

const HELP: &[&str] = &[
    "s, S    sort the routes by the next or previous column",
    "r       reverse the order",
    "/       filter routes and runs by a part of their text; Enter keeps it, Esc removes it",
    "↓ ↑     scroll the runs; also j, k, PageDown, PageUp",
    "p       pause, so that nothing moves",
    "?       this help",
    "q       quit; also Ctrl-C",
    "",
    "RUNS      runs in progress",
    "IN/S      events of agents per second; OUT/S those for clients",
    "FIRST     time to the first event for the client: half of the runs, and 95 %, of the last minute;",
    "          within the buckets of the metric diglot_stream_first_event_seconds; of fewer than 20, ≤ their bucket",
    "FAILED    ended runs that failed, since the gateway started: agent_error, upstream_error, gateway_error, expired, limited",
    "REFUSED   requests that the gateway refused, since it started; what the agent refused is FAILED",
];

/// The choices of the operator.
#[derive(Debug, Default)]
pub(super) struct ScreenState {
    pub(super) order: SortOrder,
    pub(super) filter: String,
    pub(super) is_paused: bool,
    is_typing: bool,
    has_help: bool,
    /// number of runs above the first one that is drawn
    offset: usize,
}

/// The texts of one frame.
#[derive(Debug, Default)]
pub(super) struct ScreenContent {
    pub(super) summary: String,
    pub(super) routes: Vec<TableRow>,
    pub(super) runs: Vec<TableRow>,
    /// shown in place of runs if there are none
    pub(super) hint: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    Redraw,
    Quit,
}

impl ScreenState {
    pub(super) fn handle_key(&mut self, key: KeyEvent) -> KeyResult {
        if key.kind == KeyEventKind::Release {
            return KeyResult::Redraw;
        }
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return KeyResult::Quit;
        }
        if self.is_typing {
            self.type_filter(key.code);
            return KeyResult::Redraw;
        }
        if std::mem::take(&mut self.has_help) && key.code != KeyCode::Char('q') {
            return KeyResult::Redraw;
        }
        let columns = ROUTE_COLUMNS.len();
        match key.code {
            KeyCode::Char('q') => return KeyResult::Quit,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('s') => self.order.column = (self.order.column + 1) % columns,
            KeyCode::Char('S') => self.order.column = (self.order.column + columns - 1) % columns,
            KeyCode::Char('r') => self.order.descending = !self.order.descending,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.offset += 1,
            KeyCode::Up | KeyCode::Char('k') => self.offset = self.offset.saturating_sub(1),
            KeyCode::PageDown => self.offset += 10,
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(10),
            KeyCode::Home => self.offset = 0,
            _ => {}
        }
        KeyResult::Redraw
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, content: &ScreenContent) {
        let route_lines = u16::try_from(content.routes.len()).unwrap_or(u16::MAX).saturating_add(2);
        // Runs have half of the screen if they need it.
        let height = frame.area().height;
        let run_lines = u16::try_from(content.runs.len()).unwrap_or(u16::MAX).saturating_add(1);
        let most = height.saturating_sub(2).saturating_sub(run_lines.clamp(2, (height / 2).max(2))).max(3);
        let [top, routes, runs, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(route_lines.min(most)),
            Constraint::Min(2),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(content.summary.as_str()), top);
        draw_table(frame, routes, ROUTE_COLUMNS, &content.routes, Some(self.order));
        if content.runs.is_empty() {
            frame.render_widget(Paragraph::new(content.hint.as_str()), runs);
        } else {
            self.offset = self.offset.min(content.runs.len() - 1);
            draw_table(frame, runs, RUN_COLUMNS, &content.runs[self.offset..], None);
        }
        frame.render_widget(
            Paragraph::new(self.format_footer()).style(Style::new().add_modifier(Modifier::DIM)),
            bottom,
        );
        if self.has_help {
            draw_help(frame);
        }
    }

    fn format_footer(&self) -> String {
        let filter = match (self.is_typing, self.filter.as_str()) {
            (true, text) => return format!("filter: {}▏  Enter keeps it, Esc removes it", cut_text(text, 40)),
            (false, "") => String::new(),
            (false, text) => format!("  filter: {} (Esc removes it)", cut_text(text, 40)),
        };
        let paused = if self.is_paused { "  PAUSED" } else { "" };
        format!("q quit  s sort  r reverse  / filter  p pause  ? help{filter}{paused}")
    }
}

fn draw_table(frame: &mut Frame<'_>, area: Rect, columns: &[TableColumn], rows: &[TableRow], order: Option<SortOrder>) {
    // Two more for the sign of the order.
    let widths = column_widths(columns, rows);
    let titles = columns.iter().enumerate().map(|(at, column)| match order {
        Some(order) if order.column == at => format!("{}{}", column.title, if order.descending { '▼' } else { '▲' }),
        _ => column.title.to_owned(),
    });
    let titles: TableRow = titles.collect();
    let widths: Vec<usize> =
        widths.iter().zip(&titles).map(|(width, title)| (*width).max(title.chars().count())).collect();
    let shown = fitting_columns(columns, &widths, usize::from(area.width), order.map(|order| order.column));
    let format = |row: &TableRow| {
        let cells = shown.iter().map(|at| align_cell(columns[*at], &row[*at], widths[*at]));
        cut_text(&cells.collect::<Vec<_>>().join(COLUMN_GAP), usize::from(area.width))
    };
    let mut lines = vec![Line::from(format(&titles)).style(Style::new().add_modifier(Modifier::REVERSED))];
    let room = usize::from(area.height).saturating_sub(1);
    let hidden = if rows.len() > room { rows.len() - room.saturating_sub(1) } else { 0 };
    lines.extend(rows.iter().take(rows.len() - hidden).map(|row| Line::from(format(row))));
    if hidden > 0 {
        lines.push(Line::from(format!("… {hidden} more")));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let height = u16::try_from(HELP.len()).unwrap_or(u16::MAX).min(area.height);
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Clear, middle);
    let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::from(*line)).collect();
    frame.render_widget(Paragraph::new(lines), middle);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn press(state: &mut ScreenState, keys: &str) -> KeyResult {
        let mut result = KeyResult::Redraw;
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                c => KeyCode::Char(c),
            };
            result = state.handle_key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        result
    }

    #[test]
    fn keys_sort_filter_pause_and_quit() {
        let mut state = ScreenState::default();
        press(&mut state, "ssr");
        assert_eq!(state.order, SortOrder { column: 3, descending: false });
        // Letters are text while the filter is typed.
        assert_eq!(press(&mut state, "/qp\n"), KeyResult::Redraw);
        assert_eq!((state.filter.as_str(), state.is_paused), ("qp", false));
        press(&mut state, "\x1bp");
        assert_eq!((state.filter.as_str(), state.is_paused), ("", true));
        assert_eq!(press(&mut state, "?q"), KeyResult::Quit);
    }

    #[test]
    fn small_terminals_show_what_fits() {
        let row = |columns: &[TableColumn]| columns.iter().map(|_| "cell".to_owned()).collect::<Vec<_>>();
        let content = ScreenContent {
            summary: "summary".to_owned(),
            routes: vec![row(ROUTE_COLUMNS); 50],
            runs: vec![row(RUN_COLUMNS); 50],
            hint: String::new(),
        };
        for (columns, lines) in [(80, 24), (20, 5), (1, 1), (200, 60)] {
            let mut state = ScreenState { offset: 1000, has_help: lines == 24, ..ScreenState::default() };
            let mut terminal = Terminal::new(TestBackend::new(columns, lines)).expect("a terminal");
            terminal.draw(|frame| state.draw(frame, &content)).expect("memory");
            assert_eq!(state.offset, 49);
        }
    }

    #[test]
    fn narrow_terminals_show_whole_columns() {
        let cells = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<TableRow>();
        let content = ScreenContent {
            summary: "summary".to_owned(),
            routes: vec![cells(&["chat", "3", "5.1", "6.2", "37ms", "90ms", "11", "4", "7", "upstream_error 4"])],
            runs: vec![cells(&["#12", "chat", "ada", "hai → ag-ui", "17", "21", "8ms", "9ms", "upstream_error dead"])],
            hint: String::new(),
        };
        let mut terminal = Terminal::new(TestBackend::new(60, 12)).expect("a terminal");
        let mut state = ScreenState { order: SortOrder { column: 6, descending: true }, ..ScreenState::default() };
        terminal.draw(|frame| state.draw(frame, &content)).expect("memory");
        let text = terminal.backend().to_string();
        // The failures, and what sorts; not the end of what has no place. A run without its route says nothing.
        assert_eq!(text.matches("chat").count(), 2, "{text}");
        for whole in ["ENDED▼", "FAILED", "MOST OFTEN", "upstream_error 4", "OUTCOME", "upstream_error dead", "TIME"]
        {
            assert!(text.contains(whole), "{whole}: {text}");
        }
        assert!(!text.contains("p95") && !text.contains("AGENT") && !text.contains('…'), "{text}");
    }

    #[test]
    fn cells_draw_nothing_but_text() {
        let hostile = "a\u{1b}[2J\u{202e}\r\n\u{9b}5A".to_owned();
        let mut runs = vec!["cell".to_owned(); RUN_COLUMNS.len()];
        runs[2] = hostile.clone();
        let mut routes = vec!["cell".to_owned(); ROUTE_COLUMNS.len()];
        routes[0] = hostile;
        let content = ScreenContent { routes: vec![routes], runs: vec![runs], ..ScreenContent::default() };
        let mut terminal = Terminal::new(TestBackend::new(200, 12)).expect("a terminal");
        terminal.draw(|frame| ScreenState::default().draw(frame, &content)).expect("memory");
        let cells = &terminal.backend().buffer().content;
        let shown: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        assert_eq!(shown.matches("a␛[2J<U+202E>␍␊<U+009B>5A").count(), 2, "{shown}");
    }

    #[test]
    fn routes_take_the_place_that_runs_do_not_need_and_hidden_ones_are_counted() {
        let row = |columns: &[TableColumn]| columns.iter().map(|_| "cell".to_owned()).collect::<Vec<_>>();
        for (routes, runs, shown, hidden) in
            [(16, 2, 16, None), (30, 2, 17, Some("… 13 more")), (30, 50, 8, Some("… 22 more"))]
        {
            let content = ScreenContent {
                summary: "summary".to_owned(),
                routes: vec![row(ROUTE_COLUMNS); routes],
                runs: vec![row(RUN_COLUMNS); runs],
                hint: String::new(),
            };
            let mut terminal = Terminal::new(TestBackend::new(160, 24)).expect("a terminal");
            terminal.draw(|frame| ScreenState::default().draw(frame, &content)).expect("memory");
            let text = terminal.backend().to_string();
            let lines: Vec<&str> = text.lines().collect();
            let end = lines.iter().rposition(|line| line.contains(RUN_COLUMNS[1].title)).expect("the head of the runs");
            let cells = lines[..end].iter().filter(|line| line.contains("cell")).count();
            assert_eq!(cells, shown, "{text}");
            assert!(hidden.is_none_or(|hidden| lines[end - 1].contains(hidden)), "{text}");
        }
    }
}
