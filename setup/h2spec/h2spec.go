//go:build tools

// The module of which setup/h2spec/build makes the program: go.mod has the versions, go.sum their checksums.
package h2spec

import _ "github.com/summerwind/h2spec/cmd/h2spec"
