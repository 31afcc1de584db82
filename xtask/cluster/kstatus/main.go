// Prints what kstatus, by which Flux and others wait for objects, says of each object on standard input: one JSON object a line,
// one line `<status> <message>` for each.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// longestLine is more than the API server stores of one object.
const longestLine = 4 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if err := report(lines.Bytes()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(line []byte) error {
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(line); err != nil {
		return fmt.Errorf("cannot read an object: %w", err)
	}
	result, err := status.Compute(&object)
	if err != nil {
		return fmt.Errorf("cannot compute the status of %s: %w", object.GetName(), err)
	}
	fmt.Println(result.Status, result.Message)
	return nil
}
