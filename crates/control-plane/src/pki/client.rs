//! Client certificates. Written out here because a user may be in several groups, each an organization of the subject,
//! and rcgen keeps one organization only.

use rcgen::{CertifiedIssuer, KeyPair, PublicKeyData, SigningKey};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, Tag};

use super::AUTHORITY;
use crate::error::Error;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const CLIENT_AUTHENTICATION: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];
/// `UTCTime` 1975-01-01. Certificates are valid at any time: the authority's key does not outlive the process.
const NOT_BEFORE: &[u8] = b"\x17\x0d750101000000Z";
/// `GeneralizedTime` 4096-01-01.
const NOT_AFTER: &[u8] = b"\x18\x0f40960101000000Z";

/// An X.509 certificate (RFC 5280), in PEM, by which the API server knows the holder of `key` as `user` in `groups`.
pub(super) fn certificate(
    issuer: &CertifiedIssuer<'_, KeyPair>,
    key: &KeyPair,
    user: &str,
    groups: &[&str],
) -> Result<String, Error> {
    let subject: Vec<(&[u64], &str)> =
        groups.iter().map(|group| (ORGANIZATION, *group)).chain([(COMMON_NAME, user)]).collect();
    let signed_part = yasna::construct_der(|writer| to_be_signed(writer, &subject, key));
    let signature = issuer.key().sign(&signed_part)?;
    let whole = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&signed_part);
            algorithm(writer.next());
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(pem::encode(&pem::Pem::new("CERTIFICATE", whole)))
}

fn to_be_signed(writer: DERWriter<'_>, subject: &[(&[u64], &str)], key: &KeyPair) {
    writer.write_sequence(|writer| {
        writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
        writer.next().write_bigint_bytes(uuid::Uuid::new_v4().as_bytes(), true);
        algorithm(writer.next());
        name(writer.next(), &[(COMMON_NAME, AUTHORITY)]);
        writer.next().write_sequence(|writer| {
            writer.next().write_der(NOT_BEFORE);
            writer.next().write_der(NOT_AFTER);
        });
        name(writer.next(), subject);
        writer.next().write_der(&key.subject_public_key_info());
        writer.next().write_tagged(Tag::context(3), |writer| {
            writer.write_sequence(|writer| {
                writer.next().write_sequence(|writer| {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(EXTENDED_KEY_USAGE));
                    writer.next().write_bytes(&yasna::construct_der(|writer| {
                        writer.write_sequence(|writer| {
                            writer.next().write_oid(&ObjectIdentifier::from_slice(CLIENT_AUTHENTICATION));
                        });
                    }));
                });
            });
        });
    });
}

fn name(writer: DERWriter<'_>, parts: &[(&[u64], &str)]) {
    writer.write_sequence(|writer| {
        for (kind, value) in parts {
            writer.next().write_set(|writer| {
                writer.next().write_sequence(|writer| {
                    writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
                    writer.next().write_utf8_string(value);
                });
            });
        }
    });
}

fn algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(ECDSA_WITH_SHA256));
    });
}
