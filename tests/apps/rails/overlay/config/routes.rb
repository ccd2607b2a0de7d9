# frozen_string_literal: true

Rails.application.routes.draw do
  root to: "notes#index"
  resources :notes, only: %i[index new create]
  resource :visit, only: :show
  resource :address, only: :show
  resource :upload, only: %i[create update]
  get "live/:lines", to: "streams#live"
  get "pieces/:lines", to: "pieces#index"
  get "failure", to: "failures#show"
  mount ActionCable.server => "/cable"
end
