//go:build tools

// Package tools names the programs whose modules go.mod pins; nothing imports it.
package tools

import (
	_ "go.etcd.io/etcd/server/v3"
)
