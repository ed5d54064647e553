//! Reviews and tokens: create-only requests whose answers a test decides.

use serde_json::{Value, json};

/// Decides a review: gets the `spec`, gives the `status`.
pub(crate) type Decide = Box<dyn Fn(&Value) -> Value + Send>;

/// How each sort of review is answered.
pub(crate) struct Reviews {
    pub(crate) tokens: Decide,
    pub(crate) access: Decide,
}

impl Default for Reviews {
    fn default() -> Self {
        Self { tokens: Box::new(|_| json!({"user": {}})), access: Box::new(|_| json!({"allowed": true})) }
    }
}

impl Reviews {
    /// The review with its answer.
    pub(crate) fn answer(&self, kind: &str, mut review: Value) -> Value {
        let (group, decide) = match kind {
            "TokenReview" => ("authentication.k8s.io", &self.tokens),
            _ => ("authorization.k8s.io", &self.access),
        };
        let status = decide(&review["spec"]);
        review["kind"] = json!(kind);
        review["apiVersion"] = json!(format!("{group}/v1"));
        review["status"] = status;
        if !review["metadata"].is_object() {
            review["metadata"] = json!({});
        }
        review
    }
}
