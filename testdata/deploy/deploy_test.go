// Package deploy checks the files of this folder by the types of the programs that read them. It is a module of its
// own, so that runnel itself needs none of those.
package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// scaledObject is what runnel's has of KEDA's ScaledObject (keda.sh/docs, "ScaledObject specification" and
// "Prometheus"): its own package takes minutes to build.
type scaledObject struct {
	meta.TypeMeta   `json:",inline"`
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		ScaleTargetRef  struct{ Name string } `json:"scaleTargetRef"`
		MinReplicaCount int32                 `json:"minReplicaCount"`
		MaxReplicaCount int32                 `json:"maxReplicaCount"`
		CooldownPeriod  int32                 `json:"cooldownPeriod"`
		Triggers        []struct {
			Type     string
			Metadata struct{ ServerAddress, Query, Threshold string }
		} `json:"triggers"`
	} `json:"spec"`
}

// The manifests have no field that Kubernetes does not know, and name each other as they are named.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	deployments := map[string]apps.Deployment{}
	var services []core.Service
	var scaled []scaledObject
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			var is struct{ APIVersion, Kind string }
			if err := yaml.Unmarshal([]byte(document), &is); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var d apps.Deployment
			var s core.Service
			var o scaledObject
			switch is.APIVersion + " " + is.Kind {
			case "apps/v1 Deployment":
				err = yaml.UnmarshalStrict([]byte(document), &d)
				deployments[d.Name] = d
			case "v1 Service":
				err = yaml.UnmarshalStrict([]byte(document), &s)
				services = append(services, s)
			case "keda.sh/v1alpha1 ScaledObject":
				err = yaml.UnmarshalStrict([]byte(document), &o)
				scaled = append(scaled, o)
			default:
				t.Errorf("%s: %q", file, is)
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	for name, d := range deployments {
		for label, value := range d.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[label] != value {
				t.Errorf("%s does not select its own pods", name)
			}
		}
		for _, c := range d.Spec.Template.Spec.Containers {
			for _, mount := range c.VolumeMounts {
				found := false
				for _, volume := range d.Spec.Template.Spec.Volumes {
					found = found || volume.Name == mount.Name
				}
				if !found {
					t.Errorf("%s has no volume %s", name, mount.Name)
				}
			}
		}
	}
	if len(services) != 1 || services[0].Spec.Selector["app"] != deployments["runnel-front"].Labels["app"] {
		t.Errorf("the service selects %v", services)
	}
	if len(scaled) != 1 || deployments[scaled[0].Spec.ScaleTargetRef.Name].Name == "" {
		t.Errorf("what is scaled: %v", scaled)
	}
}

// The compose file is valid, and the proxy's upstreams are its services.
func TestCompose(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{"compose.yaml"}, cli.WithName("runnel"))
	if err != nil {
		t.Fatal(err)
	}
	project, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nginx, err := os.ReadFile("nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"front-a", "front-b"} {
		if _, err := project.GetService(name); err != nil ||
			!strings.Contains(string(nginx), "server "+name+":8080;") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
