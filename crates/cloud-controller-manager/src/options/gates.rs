//! `--feature-gates`: every gate that a Go manager of this generation knows, so that its command line is understood.

use std::collections::BTreeMap;

use cloud_provider::nearest::nearest;
use controller_kit::flags::boolean;

/// How far a feature is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// May go again.
    Alpha,
    /// Is here to stay.
    Beta,
}

/// One gate.
#[derive(Debug, Clone, Copy)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How far it is.
    pub stage: Stage,
    /// Whether it is on by default upstream.
    pub default: bool,
    /// What setting it does here.
    pub here: &'static str,
}

const NOTHING: &str = "no effect";

const fn alpha(name: &'static str, default: bool, here: &'static str) -> Gate {
    Gate { name, stage: Stage::Alpha, default, here }
}

const fn beta(name: &'static str, default: bool, here: &'static str) -> Gate {
    Gate { name, stage: Stage::Beta, default, here }
}

/// All gates, by name.
pub const GATES: &[Gate] = &[
    beta("APIResponseCompression", true, NOTHING),
    beta("APIServerIdentity", true, NOTHING),
    alpha("APIServingWithRoutine", false, NOTHING),
    alpha("AllAlpha", false, NOTHING),
    beta("AllBeta", false, NOTHING),
    beta("AllowParsingUserUIDFromCertAuth", true, NOTHING),
    alpha("AllowUnsafeMalformedObjectDeletion", false, NOTHING),
    beta("AuthorizePodWebsocketUpgradeCreatePermission", true, NOTHING),
    alpha("CBORServingAndStorage", false, NOTHING),
    alpha(
        "CloudControllerManagerWatchBasedRoutesReconciliation",
        false,
        "no effect: routes always follow changes at once",
    ),
    alpha("CloudControllerManagerWebhook", false, "no effect: no webhook is hosted yet"),
    beta("ComponentFlagz", true, "no effect: /flagz is always served"),
    beta("ComponentStatusz", true, "no effect: /statusz is always served"),
    beta("ConcurrentWatchObjectDecode", false, NOTHING),
    beta("ConstrainedImpersonation", true, NOTHING),
    beta("ContextualLogging", true, "no effect: log lines always carry their context"),
    alpha(
        "ControllerManagerReleaseLeaderElectionLockOnExit",
        false,
        "no effect: the lease is always released on exit",
    ),
    beta("CoordinatedLeaderElection", false, NOTHING),
    beta("DeclarativeValidationBeta", true, NOTHING),
    beta("DetectCacheInconsistency", true, NOTHING),
    beta("ListFromCacheSnapshot", true, NOTHING),
    alpha("LoggingAlphaOptions", false, NOTHING),
    beta("LoggingBetaOptions", true, NOTHING),
    alpha("ManifestBasedAdmissionControlConfig", false, NOTHING),
    alpha("NativeHistograms", false, NOTHING),
    beta("OpenAPIEnums", true, NOTHING),
    beta("RemoteRequestHeaderUID", true, "--requestheader-uid-headers is refused when it is off"),
    alpha("ShardedListAndWatch", false, NOTHING),
    beta("SizeBasedListCostEstimate", true, NOTHING),
    alpha("StorageVersionAPI", false, NOTHING),
    beta("StorageVersionHash", true, NOTHING),
    beta("StructuredAuthenticationConfigurationEgressSelector", true, NOTHING),
    beta("StructuredAuthenticationConfigurationJWKSMetrics", true, NOTHING),
    beta("TokenRequestServiceAccountUIDValidation", true, NOTHING),
    beta("UnauthenticatedHTTP2DOSMitigation", true, "no effect: connections are always bounded"),
    beta("UnknownVersionInteroperabilityProxy", true, NOTHING),
    beta("WatchCacheInitializationPostStartHook", true, NOTHING),
    beta("WatchList", true, NOTHING),
];

/// Gates that are gone, and since when.
const REMOVED: &[(&str, &str)] = &[
    ("CloudDualStackNodeIPs", "1.32"),
    ("StableLoadBalancerNodeSet", "1.32"),
    ("DisableCloudProviders", "1.33"),
    ("DisableKubeletCloudCredentialProviders", "1.33"),
];

/// The gates as they were set; everything else has its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates(BTreeMap<&'static str, bool>);

impl Gates {
    /// Reads `Gate=bool` pairs; a name may carry the component, as in `kube:Gate`. All that is wrong is told at once.
    pub fn read(pairs: &[String]) -> Result<Self, Vec<String>> {
        let (mut set, mut errors) = (BTreeMap::new(), Vec::new());
        for pair in pairs.iter().map(|pair| pair.trim()).filter(|pair| !pair.is_empty()) {
            match read(pair) {
                Ok((name, value)) => drop(set.insert(name, value)),
                Err(error) => errors.push(format!("--feature-gates: {error}")),
            }
        }
        if errors.is_empty() { Ok(Self(set)) } else { Err(errors) }
    }

    /// Whether a gate is open. `AllAlpha` and `AllBeta` open those of their stage that were not set themselves.
    pub fn is_open(&self, name: &str) -> bool {
        let Some(gate) = GATES.iter().find(|gate| gate.name == name) else { return false };
        let all = match gate.stage {
            Stage::Alpha => "AllAlpha",
            Stage::Beta => "AllBeta",
        };
        self.0.get(name).or_else(|| self.0.get(all)).copied().unwrap_or(gate.default)
    }
}

fn read(pair: &str) -> Result<(&'static str, bool), String> {
    let (name, value) = pair.split_once('=').ok_or_else(|| format!("missing bool value for {pair:?}"))?;
    let name = name.trim();
    let name = name.strip_prefix("kube:").unwrap_or(name);
    let value = boolean(value.trim()).map_err(|error| format!("invalid value of {name}: {error}"))?;
    if let Some((_, since)) = REMOVED.iter().find(|(removed, _)| *removed == name) {
        return Err(format!(
            "the feature gate {name} was removed in Kubernetes {since}: what it switched is always on"
        ));
    }
    if let Some(gate) = GATES.iter().find(|gate| gate.name == name) {
        return Ok((gate.name, value));
    }
    let near = nearest(name, GATES.iter().map(|gate| gate.name));
    let hint = near.map_or(String::new(), |near| format!(": did you mean {near:?}?"));
    Err(format!("unrecognized feature gate: {name}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(pairs: &[&str]) -> Result<Gates, Vec<String>> {
        Gates::read(&pairs.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    /// Proves: APP-15
    #[test]
    fn known_gates_are_taken_and_all_others_are_named() {
        let set = gates(&["AllAlpha=true", "kube:NativeHistograms=false"]).unwrap();
        assert!(set.is_open("ShardedListAndWatch") && !set.is_open("NativeHistograms"));
        assert!(set.is_open("RemoteRequestHeaderUID"), "on by default");
        let errors = gates(&[
            "StableLoadBalancerNodeSet=true",
            "NativeHistogram=true",
            "WatchList",
            "WatchList=maybe",
        ]);
        let errors = errors.unwrap_err();
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert!(errors[0].contains("removed in Kubernetes 1.32") && errors[1].contains("NativeHistograms"));
    }

    #[test]
    fn the_table_is_in_order_and_has_no_name_twice() {
        assert!(GATES.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
