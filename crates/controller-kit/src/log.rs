//! klog text and JSON.
