module hosts

go 1.26.0
