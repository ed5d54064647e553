//! How two records differ, in words.

use serde_json::Value;

/// The differences between two records of one story, one per line; empty when they are equal.
pub fn difference(left: &[(String, Value)], right: &[(String, Value)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, (what, a)) in left.iter().enumerate() {
        let step = index + 1;
        match right.get(index) {
            Some((_, b)) => {
                let mut found = Vec::new();
                compare("", a, b, &mut found);
                lines.extend(found.into_iter().map(|line| format!("step {step} ({what}): {line}")));
            }
            None => lines.push(format!("step {step} ({what}): only on the left: {a}")),
        }
    }
    for (index, (what, b)) in right.iter().enumerate().skip(left.len()) {
        lines.push(format!("step {} ({what}): only on the right: {b}", index + 1));
    }
    lines
}

fn compare(at: &str, left: &Value, right: &Value, found: &mut Vec<String>) {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let only_right = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_right) {
                compare(&format!("{at}/{key}"), &left[key], &right[key], found);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{at}/{index}"), a, b, found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{at}:\n    left:  {a}\n    right: {b}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_records_do_not_differ() {
        let record = vec![("get".to_owned(), json!({"a": [1, {"b": 2}]}))];
        assert_eq!(difference(&record, &record), Vec::<String>::new());
    }

    #[test]
    fn a_difference_is_named_with_its_step_and_place() {
        let left = vec![("get".to_owned(), json!({"a": [1, {"b": 2}]}))];
        let right = vec![("get".to_owned(), json!({"a": [1, {"b": 3}]})), ("list".to_owned(), json!(1))];
        let lines = difference(&left, &right);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("step 1 (get): /a/1/b:"), "{}", lines[0]);
        assert!(lines[1].starts_with("step 2 (list): only on the right"), "{}", lines[1]);
    }
}
