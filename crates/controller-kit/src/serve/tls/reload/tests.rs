//! Certificates that change on disk, break, and are made anew.

use std::sync::Arc;

use super::super::{Options, PairFiles};
use super::*;
use crate::clock::TokioClock;
use crate::serve::subject::Subject;

const EPOCH: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

fn write_pair(directory: &std::path::Path, name: &str) -> PairFiles {
    let key = rcgen::KeyPair::generate().unwrap();
    let made = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
    let files = PairFiles { certificate: directory.join("tls.crt"), key: directory.join("tls.key") };
    std::fs::write(&files.certificate, made.pem()).unwrap();
    std::fs::write(&files.key, key.serialize_pem()).unwrap();
    files
}

async fn load(options: &Options) -> Certificates {
    load_at(options, EPOCH).await
}

async fn load_at(options: &Options, now: jiff::Timestamp) -> Certificates {
    let clock = Arc::new(TokioClock::starting_at(now));
    let addresses = ["192.0.2.7".parse().unwrap(), "0.0.0.0".parse().unwrap()];
    Certificates::load(options, &options.check().unwrap(), &addresses, clock).await.unwrap()
}

fn shown(certificates: &Certificates) -> Subject {
    Subject::of(&certificates.default_key().cert[0]).unwrap()
}

#[tokio::test]
async fn a_changed_pair_comes_into_force_and_a_broken_one_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_pair(directory.path(), "one");
    let options = Options {
        cert_file: Some(files.certificate.clone()),
        key_file: Some(files.key.clone()),
        ..Options::default()
    };
    let certificates = load(&options).await;
    assert!(!certificates.reload().await, "nothing changed");
    write_pair(directory.path(), "two");
    assert!(certificates.reload().await);
    assert_eq!(shown(&certificates).dns_names, ["two"]);

    std::fs::write(&files.certificate, "no certificate").unwrap();
    assert!(!certificates.reload().await);
    assert!(certificates.loaded.lock().await.refused.is_some());
    std::fs::remove_file(&files.key).unwrap();
    assert!(!certificates.reload().await);
    assert!(certificates.loaded.lock().await.unreadable);
    assert_eq!(shown(&certificates).dns_names, ["two"], "the last good pair stays");

    // A key that belongs to another certificate is no pair.
    write_pair(directory.path(), "three");
    let three = std::fs::read(&files.certificate).unwrap();
    write_pair(directory.path(), "four");
    std::fs::write(&files.certificate, three).unwrap();
    assert!(!certificates.reload().await);
    write_pair(directory.path(), "five");
    assert!(certificates.reload().await);
    assert_eq!(shown(&certificates).dns_names, ["five"]);
}

#[tokio::test(start_paused = true)]
async fn a_self_signed_pair_names_where_it_is_served_and_is_made_anew_in_time() {
    let options = Options { pair_name: "cloud-controller-manager".into(), ..Options::default() };
    let certificates = load(&options).await;
    let first = shown(&certificates);
    assert_eq!(first.common_name, "cloud-controller-manager@0");
    assert!(first.dns_names.contains(&"localhost".to_owned()));
    let addresses: Vec<String> = first.addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["127.0.0.1", "192.0.2.7", "::1"]);
    assert!(!certificates.reload().await);
    tokio::time::advance(RENEW_AFTER + Duration::from_secs(1)).await;
    assert!(certificates.reload().await);
    assert_ne!(shown(&certificates).common_name, first.common_name);
    assert!(!certificates.reload().await, "once");
}

#[tokio::test]
async fn a_pair_kept_in_the_certificate_directory_outlives_the_process_until_it_has_aged() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("made");
    let options = Options { pair_name: "ccm".into(), cert_dir: Some(kept.clone()), ..Options::default() };
    let files = PairFiles { certificate: kept.join("ccm.crt"), key: kept.join("ccm.key") };
    let shown_at = async |now| load_at(&options, now).await.default_key().cert.clone();
    let first = shown_at(EPOCH).await;
    let made = files.made_at().await.unwrap();
    let permissions = std::fs::metadata(&files.key).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&permissions) & 0o777, 0o600);
    let after = |age: Duration| made + jiff::SignedDuration::try_from(age).unwrap();
    assert_eq!(shown_at(after(RENEW_AFTER / 2)).await, first);
    assert_ne!(shown_at(after(RENEW_AFTER + Duration::from_secs(1))).await, first);
}
