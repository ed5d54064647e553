//! The table as text. Pure; every line fits a terminal of 110 columns, so that one line here is one line there.

use std::fmt::Write as _;

use crate::picture::Picture;

/// The widest line.
const WIDTH: usize = 110;

const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

/// The picture and the last lines of the story.
pub(super) fn render(picture: &Picture, said: &[String]) -> String {
    let mut text = format!("{BOLD}  N E P H O S{PLAIN}   a cloud for machines without one\n\n");
    section(
        &mut text,
        ["NODE", "STATE", "PROVIDER ID", "ZONE", "ADDRESS", "CLOUD TAINTS"],
        [9, 10, 22, 8, 16, 36],
        &picture.nodes,
    );
    section(&mut text, ["SERVICE", "TYPE", "ADDRESS", "PORTS"], [9, 13, 19, 40], &picture.services);
    section(&mut text, ["EVENT", "OBJECT", "MESSAGE"], [24, 24, 54], &picture.events);
    for line in said {
        let _ = writeln!(text, "{}", cut(line, WIDTH));
    }
    text
}

fn section<const N: usize>(text: &mut String, head: [&str; N], widths: [usize; N], rows: &[[String; N]]) {
    let line = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("{:<width$}", cut(cell, width)));
        padded.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{BOLD}{}{PLAIN}", line(head));
    for row in rows {
        let plain = line(row.each_ref().map(String::as_str));
        let _ = writeln!(text, "{}", coloured(&plain));
    }
    text.push('\n');
}

/// What is well in green, what is not in red.
fn coloured(line: &str) -> String {
    let bad = ["NOT READY", "uninitialized", "<pending>"];
    let colour = if bad.iter().any(|word| line.contains(word)) { RED } else { GREEN };
    format!("{colour}{line}{PLAIN}")
}

/// At most so many letters; what is longer ends in a mark.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_colours(text: &str) -> String {
        let mut plain = text.to_owned();
        for code in [BOLD, GREEN, RED, PLAIN] {
            plain = plain.replace(code, "");
        }
        plain
    }

    #[test]
    fn nodes_services_events_and_the_story_are_shown_in_lines_that_fit() {
        let cells = |words: [&str; 6]| words.map(str::to_owned);
        let picture = Picture {
            nodes: vec![
                cells(["ada", "ready", "local://demo/m-ada", "rack-1", "127.70.0.11", ""]),
                cells(["edsger", "NOT READY", "-", "", "127.70.0.13", "uninitialized"]),
            ],
            services: vec![["web", "LoadBalancer", "<pending>", "8080 -> 30123"].map(str::to_owned)],
            events: vec![["EnsuredLoadBalancer".to_owned(), "Service/web".to_owned(), "x".repeat(300)]],
        };
        let text = render(&picture, &["a line of the story".to_owned(), "y".repeat(300)]);
        let plain = without_colours(&text);
        for expected in ["ada       ready", "local://demo/m-ada", "LoadBalancer", "a line of the story"] {
            assert!(plain.contains(expected), "{plain}");
        }
        for line in plain.lines() {
            assert!(line.chars().count() <= WIDTH, "too wide: {line}");
        }
        let line_of = |word: &str| text.lines().find(|line| line.contains(word)).unwrap();
        assert!(line_of("ada").starts_with(GREEN));
        assert!(line_of("edsger").starts_with(RED) && line_of("<pending>").starts_with(RED));
    }
}
