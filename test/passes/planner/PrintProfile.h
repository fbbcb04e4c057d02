//===- PrintProfile.h - A profile as JSON -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What tools/dt-profile writes, of a profile in memory: for round trips.
//
//===----------------------------------------------------------------------===//

#ifndef TEST_PASSES_PLANNER_PRINTPROFILE_H
#define TEST_PASSES_PLANNER_PRINTPROFILE_H

#include "models/frontend/json/JsonReader.h"
#include "passes/planner/cost/Profile.h"

namespace dt::planner {

inline std::string printProfile(const Profile &profile) {
  models::OrderedJson json;
  json["version"] = 1;
  json["device"] = profile.device;
  json["save"] = rt::textOf(profile.save);
  if (profile.update)
    json["update"] = *profile.update;
  for (auto &[name, link] :
       {std::pair("inside", profile.inside), {"reduce", profile.reduce}})
    if (link)
      json[name] = {{"latency", link->latency}, {"bandwidth", link->bandwidth}};
  for (auto &[module, layers] : profile.routing)
    for (const std::vector<double> &rows : layers)
      json["routing"][module].push_back(rows.size() == 1
                                            ? models::OrderedJson(rows[0])
                                            : models::OrderedJson(rows));
  if (!profile.modules.empty() || profile.routing.empty())
    json["modules"] = models::OrderedJson::object();
  for (auto &[module, layers] : profile.modules)
    for (auto &[layer, measured] : layers) {
      models::OrderedJson &list = json["modules"][module][layer] =
          models::OrderedJson::array();
      for (auto &[tp, points] : measured)
        for (const ProfilePoint &point : points) {
          list.push_back({{"tp", tp},
                          {"rows", point.rows},
                          {"tokens", point.tokens},
                          {"forward", point.forward},
                          {"backward", point.backward}});
          if (point.weight)
            list.back()["weight"] = *point.weight;
        }
    }
  return json.dump(1);
}

} // namespace dt::planner

#endif // TEST_PASSES_PLANNER_PRINTPROFILE_H
