package apiserver

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// newAuthorizer decides who may do what: the owner's group may do everything, a
// node what belongs to the Pods bound to it, everybody what their roles say.
//
// It is put together here because the stock way also watches kinds that are not
// served (resource slices, Pod certificate requests), and would wait for them
// for ever.
func newAuthorizer(f informers.SharedInformerFactory) (authorizer.Authorizer, authorizer.RuleResolver, error) {
	graph := node.NewGraph()
	node.AddGraphEventHandlers(graph,
		f.Core().V1().Nodes(), f.Core().V1().Pods(), f.Core().V1().PersistentVolumes(),
		f.Storage().V1().VolumeAttachments(), nil, nil)
	nodes := node.NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules())

	roles := f.Rbac().V1()
	byRole := rbac.New(
		&rbac.RoleGetter{Lister: roles.Roles().Lister()},
		&rbac.RoleBindingLister{Lister: roles.RoleBindings().Lister()},
		&rbac.ClusterRoleGetter{Lister: roles.ClusterRoles().Lister()},
		&rbac.ClusterRoleBindingLister{Lister: roles.ClusterRoleBindings().Lister()},
	)
	all, err := union.New(
		union.NamedAuthorizer{
			AuthorizerName: "owner",
			Authorizer:     authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		},
		union.NamedAuthorizer{AuthorizerName: "node", Authorizer: nodes},
		union.NamedAuthorizer{AuthorizerName: "rbac", Authorizer: byRole},
	)
	if err != nil {
		return nil, nil, fmt.Errorf("joining the authorizers: %w", err)
	}
	return all, union.NewRuleResolvers(nodes, byRole), nil
}
