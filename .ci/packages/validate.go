// Validate checks a JSON file against a JSON schema: go run validate.go SCHEMA FILE.
package main

import (
	"log"
	"os"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func main() {
	schema, err := jsonschema.NewCompiler().Compile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Open(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(file)
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
}
