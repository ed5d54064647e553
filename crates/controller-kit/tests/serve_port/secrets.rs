//! Tokens never reach the log, at any verbosity, whatever becomes of the request.

use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use controller_kit::clock::SystemClock;
use controller_kit::log;
use controller_kit::random::Randomness;
use controller_kit::serve::auth::{KubeReviews, Metrics, Trust};
use http::Request;
use serde_json::json;
use testkit::{ApiServer, Fault, Verb, When};
use tracing_subscriber::layer::SubscriberExt as _;

use crate::port::access;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_is_in_no_line_of_the_log() {
    const TOKEN: &str = "eyJhbGciOiJub25lIn0.c2VjcmV0.dG9rZW4";
    let written = Written::default();
    let sink = written.clone();
    let options = log::Options { verbosity: 10, ..log::Options::default() };
    let (layer, _handle) = log::layer(&options, Arc::new(SystemClock), move || sink.clone()).unwrap();
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));

    let server = ApiServer::new(1);
    server.answer_token_reviews(|_| json!({ "authenticated": false, "error": "token expired" }));
    let reviews = KubeReviews::new(server.client(), Randomness::seeded(1), Metrics::unregistered());
    let access = access(Trust::nobody(), Some(Arc::new(reviews)));
    let ask = async || {
        let request = Request::get("/metrics").header("authorization", format!("Bearer {TOKEN}"));
        access.admit(&request.body(Bytes::new()).unwrap()).await.unwrap_err().status().as_u16()
    };
    assert_eq!(ask().await, 401);
    for fault in [Fault::InternalError, Fault::Forbidden, Fault::Refused, Fault::Hang] {
        server.faults().clear().always(When::verb(Verb::Create), fault);
        assert_eq!(ask().await, 401);
    }
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains("Request not authenticated") && text.contains("token expired"), "{text}");
    assert!(!text.contains(TOKEN) && !text.contains("c2VjcmV0"), "{text}");
}
