//! What stands between the controllers and any cloud.
