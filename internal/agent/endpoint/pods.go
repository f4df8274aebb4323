package endpoint

import (
	"encoding/json"
	"net/http"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// listPods answers with the Pods of this node and their statuses.
func (s *Server) listPods(w http.ResponseWriter, r *http.Request) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []v1.Pod{}}
	for _, pod := range s.options.Pods.Pods() {
		list.Items = append(list.Items, *pod)
	}
	text, err := json.Marshal(&list)
	if err != nil {
		refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	answer(r, w, string(text))
}
