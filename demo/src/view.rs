//! What a person sees: a table that is drawn again and again on a terminal, plain lines elsewhere.

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::Client;

use crate::picture::Picture;

mod table;

/// How often the table is drawn.
const REDRAW: Duration = Duration::from_millis(400);

/// How many lines of the story stay on the screen: the whole fits a terminal of 24 lines.
const LINES: usize = 7;

/// Where the story is shown. Cheap to clone.
#[derive(Clone)]
pub(crate) struct View {
    live: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    said: Vec<String>,
    picture: Picture,
    /// How many lines of the screen are ours, above the cursor.
    drawn: usize,
    closed: bool,
}

impl View {
    /// A view with a live table, or with plain lines.
    pub(crate) fn new(live: bool) -> Self {
        Self { live, state: Arc::default() }
    }

    /// Tells one line of the story.
    pub(crate) fn say(&self, line: &str) {
        let mut state = self.state();
        state.said.push(line.to_owned());
        if self.live && !state.closed {
            state.draw();
        } else {
            show(&format!("{line}\n"));
        }
    }

    /// Follows the cluster from now on, if the view is a live one.
    pub(crate) fn follow(&self, client: Client) {
        if !self.live {
            return;
        }
        let view = self.clone();
        tokio::spawn(async move {
            while !view.state().closed {
                // What cannot be seen now is seen next time.
                if let Ok(picture) = Picture::take(&client).await {
                    let mut state = view.state();
                    if state.picture != picture && !state.closed {
                        state.picture = picture;
                        state.draw();
                    }
                }
                tokio::time::sleep(REDRAW).await;
            }
        });
    }

    /// Leaves the table as it is; what is said from now on stands below it.
    pub(crate) fn close(&self) {
        self.state().closed = true;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn draw(&mut self) {
        let text = table::render(&self.picture, &self.said[self.said.len().saturating_sub(LINES)..]);
        // Up to the first of our lines, then everything below is cleared.
        let back = if self.drawn > 0 { format!("\x1b[{}A\x1b[J", self.drawn) } else { String::new() };
        self.drawn = text.lines().count();
        // A line that is too long for the terminal is cut off there: wrapped, it would count as two.
        show(&format!("{back}\x1b[?7l{text}\x1b[?7h"));
    }
}

/// Writes to standard output. A reader that went away is no reason to stop.
fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
