//! Machinery that knows Kubernetes and no cloud: client, cache, queue, leader, events, patch.
