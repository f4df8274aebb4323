package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Context is the name of the cluster, user and context in a kubeconfig.
const Context = "muster"

// WriteKubeconfig writes a kubeconfig to file, mode 0600, that logs in to the
// API server at url with the given certificate. The file stands alone: the
// certificates are in it. It replaces the file whole.
func (p *PKI) WriteKubeconfig(file, url string, pair Pair) error {
	config, err := p.kubeconfig(url, pair)
	if err != nil {
		return fmt.Errorf("preparing the kubeconfig %s: %w", file, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding the kubeconfig %s: %w", file, err)
	}
	if err := writeFile(file, data, 0o600); err != nil {
		return fmt.Errorf("writing the kubeconfig %s: %w", file, err)
	}
	return nil
}

func (p *PKI) kubeconfig(url string, pair Pair) (*clientcmdapi.Config, error) {
	root, err := p.Server.PEM()
	if err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(pair.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(pair.KeyFile)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[Context] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: root}
	config.AuthInfos[Context] = &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	config.Contexts[Context] = &clientcmdapi.Context{Cluster: Context, AuthInfo: Context}
	config.CurrentContext = Context
	return config, nil
}
