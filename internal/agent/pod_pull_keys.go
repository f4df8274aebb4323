package agent

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// registryEntry is one registry's credentials in a docker configuration.
type registryEntry struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"` // base64 of username:password
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// registryKeys are the credentials that the Pod's imagePullSecrets hold for the
// image's registry. A secret that cannot be read is an error beside the others' keys.
func (w *worker) registryKeys(ctx context.Context, pod *v1.Pod, image string) ([]*cri.AuthConfig, error) {
	var keys []*cri.AuthConfig
	var failures []error
	for _, ref := range pod.Spec.ImagePullSecrets {
		secret, err := w.client.CoreV1().Secrets(pod.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			failures = append(failures, fmt.Errorf("reading secret %s: %w", ref.Name, err))
			continue
		}
		found, err := keysFor(secret, image)
		if err != nil {
			failures = append(failures, fmt.Errorf("reading secret %s: %w", ref.Name, err))
		}
		keys = append(keys, found...)
	}
	return keys, errors.Join(failures...)
}

// keysFor are the credentials in one secret that are meant for the image.
func keysFor(secret *v1.Secret, image string) ([]*cri.AuthConfig, error) {
	entries := map[string]registryEntry{}
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		var file struct {
			Auths map[string]registryEntry `json:"auths"`
		}
		if err := json.Unmarshal(secret.Data[v1.DockerConfigJsonKey], &file); err != nil {
			return nil, err
		}
		entries = file.Auths
	case v1.SecretTypeDockercfg:
		if err := json.Unmarshal(secret.Data[v1.DockerConfigKey], &entries); err != nil {
			return nil, err
		}
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return nil, err
	}
	servers := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { // the most particular first
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var keys []*cri.AuthConfig
	for _, server := range servers {
		if !meantFor(server, named) {
			continue
		}
		key, err := entries[server].key(server)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// meantFor says whether credentials filed under server are for the image: the
// same registry, and a path that is a prefix of the image's.
func meantFor(server string, image reference.Named) bool {
	server = strings.TrimPrefix(strings.TrimPrefix(server, "https://"), "http://")
	host, path, _ := strings.Cut(strings.TrimSuffix(server, "/"), "/")
	if host == "index.docker.io" || host == "registry-1.docker.io" {
		host = "docker.io"
	}
	if host != reference.Domain(image) {
		return false
	}
	if path == "" || path == "v1" || path == "v2" { // old clients file the API's version with the host
		return true
	}
	return strings.HasPrefix(reference.Path(image)+"/", path+"/")
}

func (e registryEntry) key(server string) (*cri.AuthConfig, error) {
	if e.Username == "" && e.Auth != "" {
		plain, err := base64.StdEncoding.DecodeString(e.Auth)
		if err != nil {
			return nil, fmt.Errorf("decoding auth of %s: %w", server, err)
		}
		e.Username, e.Password, _ = strings.Cut(string(plain), ":")
	}
	return &cri.AuthConfig{
		Username: e.Username, Password: e.Password, ServerAddress: server,
		IdentityToken: e.IdentityToken, RegistryToken: e.RegistryToken,
	}, nil
}
