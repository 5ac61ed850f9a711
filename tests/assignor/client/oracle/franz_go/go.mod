module kgroup/franz_go

go 1.26.0

require (
	github.com/twmb/franz-go v1.22.0
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)
